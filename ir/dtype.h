/* dtype.h - element types and their facts (dtype.def). */
#ifndef FK_IR_DTYPE_H
#define FK_IR_DTYPE_H

#include "ir/base/base.h"

typedef enum DType {
#define DTYPE(name, bits, cls, value) DT_##name,
#include "ir/dtype.def"
#undef DTYPE
    DT_COUNT,
    DT_none = DT_COUNT
} DType;

typedef enum DClass { DC_REAL, DC_INT, DC_UINT, DC_BOOL } DClass;

const char *dtype_name(DType t);
int dtype_bits(DType t);
DClass dtype_class(DType t);
DType dtype_value(DType t); /* the type a loaded element has in arithmetic: f32, i32, i64, bool */
bool dtype_is_int(DType t); /* INT or UINT */
DType dtype_named(const char *name, size_t n); /* DT_none when it is no type */

/* Rounding of a real to a stored real type, to nearest even; fp8 saturates (+inf gives the
 * largest finite, NaN stays NaN). Also used by the constant folder: one definition. */
double dtype_round(DType t, double v);
/* A real to an integer type: to nearest even, saturating, NaN gives 0. */
int64_t dtype_to_int(DType t, double v);
/* An integer to an integer type, saturating: a cast. (Arithmetic wraps; see eval_ops.c.) */
int64_t dtype_clamp(DType t, int64_t v);
int64_t dtype_lowest(DType t), dtype_highest(DType t); /* integers, bool */

/* Bytes of memory to value and back, for evaluators and tools. `i` is an element index (u4/i4:
 * within a row that starts on a byte). Reals through the double, integers and bool through the
 * int64. dtype_load of a real leaves *i alone, and so on. */
void dtype_load(DType t, const void *base, int64_t index, double *r, int64_t *i);
void dtype_store(DType t, void *base, int64_t index, double r, int64_t i);

#endif
