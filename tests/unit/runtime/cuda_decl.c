// Compiled only: runtime/cuda.def agrees with the toolkit's own cuda.h, where there is one. cuda.h
// renames functions to their versions by macros, so `name` below is the versioned one.
#include <cuda.h>

#define CU(name, version, need, args) const void *check_##name(void);
#include "runtime/cuda.def"
#undef CU

#define CU(name, version, need, args)                                                              \
    const void *check_##name(void) {                                                               \
        static CUresult(*const same_type) args = name;                                             \
        return (const void *)&same_type;                                                           \
    }
#include "runtime/cuda.def"
#undef CU
