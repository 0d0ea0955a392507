// Updates of memory that CTAs on other host threads may update at the same time.
#ifndef RUNTIME_EMU_ATOMIC_INT_H
#define RUNTIME_EMU_ATOMIC_INT_H

#include <stdint.h>

typedef enum AtomicOp {
    ATOMIC_ADD,
    ATOMIC_MIN,
    ATOMIC_MAX,
    ATOMIC_AND,
    ATOMIC_OR,
    ATOMIC_XOR,
    ATOMIC_EXCH,
    ATOMIC_CAS,
    ATOMIC_INC,
    ATOMIC_DEC
} AtomicOp;

typedef enum AtomicType {
    TYPE_U32,
    TYPE_S32,
    TYPE_U64,
    TYPE_S64,
    TYPE_F32,
    TYPE_F16,
    TYPE_BF16,
    TYPE_F16X2,
    TYPE_BF16X2,
    TYPE_F32_FTZ // atom and red in global memory flush subnormals; bulk copies that add do not
} AtomicType;

uint32_t atomic_bytes(AtomicType type);
// What stood there before. CAS: c where b stands.
uint64_t atomic_update(AtomicOp op, AtomicType type, void *p, uint64_t b, uint64_t c);
uint64_t atomic_get(const void *p, uint32_t bytes);
void atomic_set(void *p, uint32_t bytes, uint64_t v);

#endif
