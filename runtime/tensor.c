// One argument of a launch against its declaration: rank, type, device, extents, strides, data,
// alignment; and its canonical form: strides in elements, those of extents 0 and 1 as if dense.
#include "runtime/runtime_int.h"

#include <string.h>

// fk_fail with "fn 'f', argument 1 'w': " before it.
#define REFUSE(b, i, status, format, ...)                                                          \
    fk_fail(status, "fn '%s', argument %u '%s': " format, (b)->fn->fn->name, (unsigned)(i),        \
            (b)->fn->fn->tensors[i].name, __VA_ARGS__)

const DLDataType fk_dl_types[FKM_DTYPES] = {
#define DTYPE(name, text, code, bits) {code, bits, 1},
#include "runtime/dtype.def"
#undef DTYPE
};

static fk_status check_type(const FkBound *b, uint32_t i, DLDataType found) {
    FkmDtype want = (FkmDtype)b->fn->fn->tensors[i].dtype;
    const char *needed = fkm_dtype_name(want);
    if (found.lanes != 1)
        return REFUSE(b, i, FK_ERROR_LANES, "lanes must be 1, found %u", (unsigned)found.lanes);
    if (found.code == fk_dl_types[want].code && found.bits == fk_dl_types[want].bits) return FK_OK;
    for (int t = 0; t < FKM_DTYPES; t++)
        if (found.code == fk_dl_types[t].code && found.bits == fk_dl_types[t].bits)
            return REFUSE(b, i, FK_ERROR_DTYPE, "the element type must be %s, found %s", needed,
                          fkm_dtype_name((FkmDtype)t));
    return REFUSE(b, i, FK_ERROR_DTYPE,
                  "the element type must be %s, found DLPack code %u with %u bits", needed,
                  (unsigned)found.code, (unsigned)found.bits);
}

static const char *device_name(DLDevice d, char *text, size_t room) {
    static const char *const names[] = {
        [1] = "cpu", [2] = "cuda", [3] = "cuda_host", [12] = "ext_dev", [13] = "cuda_managed"};
    unsigned t = (unsigned)d.device_type;
    if (t < sizeof names / sizeof *names && names[t])
        snprintf(text, room, "%s:%d", names[t], d.device_id);
    else
        snprintf(text, room, "DLPack device type %u", t);
    return text;
}

static bool on_host(DLDevice d) {
    return d.device_type == kDLCPU || d.device_type == kDLCUDAHost;
}

static fk_status check_device(const FkBound *b, uint32_t i, const DLTensor *t, bool scalar) {
    char want[32], found[32];
    DLDevice here = b->fn->module->device->facts.info.dl;
    if (t->device.device_type == here.device_type && t->device.device_id == here.device_id)
        return FK_OK;
    if (t->device.device_type == kDLCUDAManaged && here.device_type == kDLCUDA) return FK_OK;
    if (scalar && on_host(t->device)) return FK_OK;
    return REFUSE(b, i, FK_ERROR_DEVICE, "the data must be on %s%s, found on %s",
                  device_name(here, want, sizeof want), scalar ? " or the CPU" : "",
                  device_name(t->device, found, sizeof found));
}

static fk_status check_shape(const FkBound *b, uint32_t i, const DLTensor *t, bool *empty) {
    uint32_t rank = b->fn->fn->tensors[i].rank;
    if (t->ndim != (int32_t)rank)
        return REFUSE(b, i, FK_ERROR_RANK, "the rank must be %u, found %d", rank, t->ndim);
    if (rank && !t->shape)
        return REFUSE(b, i, FK_ERROR_SHAPE, "the shape of %u extents is null", rank);
    for (uint32_t d = 0; d < rank; d++) {
        if (t->shape[d] < 0)
            return REFUSE(b, i, FK_ERROR_SHAPE, "dimension %u must not be negative, found %lld", d,
                          (long long)t->shape[d]);
        *empty |= !t->shape[d];
    }
    return FK_OK;
}

// Canonical strides: the caller's where they mean something, else what dense storage inside of the
// dimension gives.
static fk_status set_strides(FkBound *b, uint32_t i, const DLTensor *t, bool empty) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    int64_t *extent = b->extent + f->first_dim, *stride = b->stride + f->first_dim, dense = 1;
    for (uint32_t d = f->rank; d-- > 0;) {
        extent[d] = t->shape[d];
        bool given = t->strides && extent[d] > 1 && !empty;
        stride[d] = given ? t->strides[d] : dense;
        int64_t n = extent[d] > 1 ? extent[d] : 1;
        if (d == f->rank - 1 && fkm_dtype_bits((FkmDtype)f->dtype) == 4) n += n > 1 ? n & 1 : 0;
        bool far = __builtin_mul_overflow(stride[d], n, &dense);
        if (far && empty) dense = 1; // no element will ask
        if (far && !empty)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "dimension %u of %lld elements with stride %lld leaves 64 bits", d,
                          (long long)extent[d], (long long)stride[d]);
    }
    return FK_OK;
}

// Two elements a byte: rows start at whole bytes and lie side by side.
static fk_status check_half_bytes(const FkBound *b, uint32_t i) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    for (uint32_t d = 0; d < f->rank; d++) {
        int64_t s = b->stride[f->first_dim + d];
        if (b->extent[f->first_dim + d] <= 1) continue;
        if (d == f->rank - 1 && s != 1 && s != 0)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "the last stride of a 4-bit tensor must be 1, found %lld", (long long)s);
        if (d < f->rank - 1 && s % 2)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "stride %u of a 4-bit tensor must be even (whole bytes), found %lld", d,
                          (long long)s);
    }
    return FK_OK;
}

// An output's strides are positive, and no two elements share an address: from the smallest stride
// up, each must step over all that lies inside of it.
static fk_status check_output(const FkBound *b, uint32_t i) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    const int64_t *extent = b->extent + f->first_dim, *stride = b->stride + f->first_dim;
    uint32_t order[FKM_MAX_RANK], n = 0;
    for (uint32_t d = 0; d < f->rank; d++) {
        if (extent[d] <= 1) continue;
        if (stride[d] <= 0)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "stride %u of an output must be positive, found %lld", d,
                          (long long)stride[d]);
        uint32_t at = n++;
        for (; at && stride[order[at - 1]] > stride[d]; at--) order[at] = order[at - 1];
        order[at] = d;
    }
    int64_t last = 0; // offset of the last element inside
    for (uint32_t k = 0; k < n; k++) {
        int64_t e = extent[order[k]], s = stride[order[k]];
        if (s <= last)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "stride %u of an output must be at least %lld, so that no two elements "
                          "share an address, found %lld",
                          order[k], (long long)last + 1, (long long)s);
        last += (e - 1) * s; // in 64 bits: set_span has looked
    }
    return FK_OK;
}

// The bytes [low, high) that the tensor's elements reach. Offsets stay below 2^57 elements, so that
// they count in bits, too, in 64 bits.
static fk_status set_span(FkBound *b, uint32_t i, bool empty) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    const int64_t bits = fkm_dtype_bits((FkmDtype)f->dtype), most = (int64_t)1 << 57;
    int64_t first = 0, last = 0, reach;
    for (uint32_t d = 0; d < f->rank && !empty; d++) {
        int64_t s = b->stride[f->first_dim + d];
        bool far = __builtin_mul_overflow(b->extent[f->first_dim + d] - 1, s, &reach);
        far = far || __builtin_add_overflow(reach, s < 0 ? first : last, s < 0 ? &first : &last);
        if (far || first < -most || last > most)
            return REFUSE(b, i, FK_ERROR_STRIDE,
                          "dimension %u of %lld elements with stride %lld reaches beyond 2^57 "
                          "elements",
                          d, (long long)b->extent[f->first_dim + d], (long long)s);
    }
    uint64_t below = (uint64_t)((-first * bits + 7) / 8),
             above = (uint64_t)(((last + 1) * bits + 7) / 8);
    b->low[i] = b->address[i] - below;
    b->high[i] = empty ? b->low[i] : b->address[i] + above;
    if (b->address[i] && (below > b->address[i] || above > UINT64_MAX - b->address[i]))
        return REFUSE(b, i, FK_ERROR_STRIDE, "the strides reach %s",
                      below > b->address[i] ? "below address 0" : "above the last address");
    return FK_OK;
}

static fk_status set_address(FkBound *b, uint32_t i, const DLTensor *t, bool empty,
                             bool need_data) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    uint64_t at = (uint64_t)(uintptr_t)t->data + t->byte_offset;
    unsigned unit = (unsigned)(fkm_dtype_bits((FkmDtype)f->dtype) + 7) / 8;
    b->address[i] = 0;
    b->align[i] = FKM_ALIGN;
    if (!t->data && !empty && need_data)
        return REFUSE(b, i, FK_ERROR_DATA,
                      "the data is null, and the tensor has elements (first extent %lld)",
                      f->rank ? (long long)t->shape[0] : 1LL);
    if (!t->data && !empty) b->addresses = false;
    if (!t->data || empty) return FK_OK;
    if (!f->rank && !f->is_output && on_host(t->device)) return FK_OK; // copied into the launch
    if (at % unit)
        return REFUSE(b, i, FK_ERROR_ALIGNMENT,
                      "the address must be a multiple of %u, found 0x%llx", unit,
                      (unsigned long long)at);
    b->address[i] = at;
    if (at % FKM_ALIGN) b->align[i] = (int64_t)(at & -at);
    return FK_OK;
}

fk_status fk_bind_tensor(FkBound *b, uint32_t i, bool need_data) {
    const FkmTensor *f = &b->fn->fn->tensors[i];
    const DLTensor *t = b->args[i];
    bool empty = false, scalar = !f->rank && !f->is_output;
    fk_status s;
    if (!t) return REFUSE(b, i, FK_ERROR_ARGUMENT, "the tensor is %s", "null");
    if ((s = check_shape(b, i, t, &empty))) return s;
    if ((s = check_type(b, i, t->dtype))) return s;
    if (t->data && (s = check_device(b, i, t, scalar))) return s;
    if ((s = set_strides(b, i, t, empty))) return s;
    if ((s = set_address(b, i, t, empty, need_data))) return s;
    if (fkm_dtype_bits((FkmDtype)f->dtype) == 4 && !empty && (s = check_half_bytes(b, i))) return s;
    if ((s = set_span(b, i, empty))) return s;
    return f->is_output && !empty ? check_output(b, i) : FK_OK;
}
