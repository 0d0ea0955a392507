// Modules for tests, as trees. Each file that includes this has its own copy of them.
//
//   linear(x: bf16[M, K], w: bf16[N, K], s: f32) -> (y: bf16[M, N])
//       head 64 bytes, one temporary of 4*M*N bytes, a check that K is a multiple of 8
//       step 0: variant 0 "fast" for sm_90a if w's rows and address are 16-byte aligned, K >= 64:
//               two launches, of a cubin and of PTX, and 8*M bytes of scratch; the first takes
//               tensor maps of w and of the temporary; variant 1 "general" for sm_80
//   sizes(a: f32[2*D], b: f32[T/16], c: f32[S + T]) -> (o: f32[D]), the last launch in y and z
//   quads(q: u4[R, C]) -> (o: u4[R, C])
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include "runtime/fkm.h"

#define N_OF(array)     (sizeof(array) / sizeof *(array))
#define E(...)          {(FkmInsn[]){__VA_ARGS__}, N_OF(((FkmInsn[]){__VA_ARGS__}))}
#define LIST(type, ...) (type[]){__VA_ARGS__}, N_OF(((type[]){__VA_ARGS__}))
// Instructions as plain braces, which static data may hold.
#define K_(v)        {FKM_OP_CONST, 0, 0, v}
#define S_(i)        {FKM_OP_SIZE, i, 0, 0}
#define EXTENT(t, d) {FKM_OP_EXTENT, t, d, 0}
#define STRIDE(t, d) {FKM_OP_STRIDE, t, d, 0}
#define ALIGN(t)     {FKM_OP_ALIGN, t, 0, 0}
#define DO(op)       {FKM_OP_##op, 0, 0, 0}

enum { M, N, K };
static FkmFn sample_fns[] = {
    {
        .name = "linear",
        .graph = "graph linear",
        LIST(FkmTensor, {"x", FKM_BF16, false, LIST(FkmDim, {"M", E(S_(M))}, {"K", E(S_(K))}), 0},
             {"w", FKM_BF16, false, LIST(FkmDim, {"N", E(S_(N))}, {"K", E(S_(K))}), 0},
             {"s", FKM_F32, false, NULL, 0, 0},
             {"y", FKM_BF16, true, LIST(FkmDim, {"M", E(S_(M))}, {"N", E(S_(N))}), 0}),
        LIST(FkmSize, {"M", -1}, {"N", -1}, {"K", -1}),
        LIST(FkmSolve, {M, 0, 0, E(EXTENT(0, 0)), {0}}, {K, 0, 1, E(EXTENT(0, 1)), {0}},
             {N, 1, 0, E(EXTENT(1, 0)), {0}}),
        LIST(FkmCheck, {E(K_(0), S_(K), K_(8), DO(MOD), DO(SUB)), E(S_(M), K_(0), DO(EQ)), E(K_(8)),
                        E(S_(K)), "K must be a multiple of {needed}, found {found}"}),
        E(K_(64)),
        LIST(FkmTemp, {E(S_(M), S_(N), DO(MUL), K_(4), DO(MUL)), FKM_F32,
                       LIST(FkmExpr, E(S_(M)), E(S_(N)))}),
        LIST(
            FkmStep,
            {"y", LIST(FkmVariant,
                       {"fast", "sm_90a",
                        E(STRIDE(1, 0), K_(8), DO(MOD), K_(0), DO(EQ), ALIGN(1), K_(16), DO(MOD),
                          K_(0), DO(EQ), DO(AND), K_(64), S_(K), DO(LE), DO(AND)),
                        E(K_(10)), E(S_(M), K_(8), DO(MUL)),
                        LIST(FkmLaunch,
                             {0,
                              {E(S_(M)), E(K_(1)), E(K_(1))},
                              {128, 1, 1},
                              E(K_(512)),
                              LIST(FkmParam, {FKM_PARAM_TENSOR, 0, {0}, {0}},
                                   {FKM_PARAM_SCRATCH, 0, E(K_(16)), {0}},
                                   {FKM_PARAM_TMAP, 1, {0}, {false, 2, 128, {1, 0}, {64, 8}}},
                                   {FKM_PARAM_TMAP, 0, {0}, {true, 2, 0, {1, 0}, {4, 256}}})},
                             {2, {E(S_(M)), E(K_(1)), E(K_(1))}, {64, 2, 1}, {0}, NULL, 0})},
                       {"general",
                        "sm_80",
                        {0},
                        E(K_(100)),
                        {0},
                        LIST(FkmLaunch,
                             {1,
                              {E(S_(M), K_(127), DO(ADD), K_(128), DO(DIV)), E(S_(N)), E(K_(1))},
                              {256, 1, 1},
                              {0},
                              LIST(FkmParam, {FKM_PARAM_TENSOR, 0, {0}, {0}},
                                   {FKM_PARAM_TENSOR, 1, {0}, {0}}, {FKM_PARAM_TENSOR, 3, {0}, {0}},
                                   {FKM_PARAM_SCALAR, 2, {0}, {0}},
                                   {FKM_PARAM_VALUE, 0, E(STRIDE(0, 0)), {0}},
                                   {FKM_PARAM_VALUE, 0, E(S_(K)), {0}},
                                   {FKM_PARAM_TEMP, 0, {0}, {0}}, {FKM_PARAM_HEAD, 0, {0}, {0}},
                                   {FKM_PARAM_VALUE, 0, E(DO(SM_COUNT)), {0}})})})}),
    },
    {
        .name = "sizes",
        .graph = NULL,
        LIST(FkmTensor, {"a", FKM_F32, false, LIST(FkmDim, {"2*D", E(K_(2), S_(0), DO(MUL))}), 0},
             {"b", FKM_F32, false, LIST(FkmDim, {"T/16", E(S_(1), K_(16), DO(DIV))}), 0},
             {"c", FKM_F32, false, LIST(FkmDim, {"S + T", E(S_(2), S_(1), DO(ADD))}), 0},
             {"o", FKM_F32, true, LIST(FkmDim, {"D", E(S_(0))}), 0}),
        LIST(FkmSize, {"D", -1}, {"T", -1}, {"S", -1}),
        LIST(FkmSolve, {0, 0, 0, E(EXTENT(0, 0)), E(K_(2))},
             {1, 1, 0, E(EXTENT(1, 0), K_(16), DO(MUL)), {0}},
             {2, 2, 0, E(EXTENT(2, 0), S_(1), DO(SUB)), {0}}),
        .steps = (FkmStep[]){{"o", LIST(FkmVariant,
                                        {"general",
                                         "sm_80",
                                         {0},
                                         {0},
                                         {0},
                                         LIST(FkmLaunch,
                                              {1,
                                               {E(K_(1)), E(S_(0)), E(S_(2))},
                                               {32, 1, 1},
                                               {0},
                                               LIST(FkmParam, {FKM_PARAM_TENSOR, 0, {0}, {0}},
                                                    {FKM_PARAM_VALUE, 0, E(S_(0)), {0}},
                                                    {FKM_PARAM_VALUE, 0, E(S_(1)), {0}},
                                                    {FKM_PARAM_VALUE, 0, E(S_(2)), {0}})})})}},
        .n_steps = 1,
    },
    {
        .name = "quads",
        .graph = NULL,
        LIST(FkmTensor, {"q", FKM_U4, false, LIST(FkmDim, {"R", E(S_(0))}, {"C", E(S_(1))}), 0},
             {"o", FKM_U4, true, LIST(FkmDim, {"R", E(S_(0))}, {"C", E(S_(1))}), 0}),
        LIST(FkmSize, {"R", -1}, {"C", -1}),
        LIST(FkmSolve, {0, 0, 0, E(EXTENT(0, 0)), {0}}, {1, 0, 1, E(EXTENT(0, 1)), {0}}),
        .steps =
            (FkmStep[]){
                {"o", LIST(FkmVariant,
                           {"general",
                            "sm_80",
                            {0},
                            {0},
                            {0},
                            LIST(FkmLaunch, {1,
                                             {E(S_(0)), E(K_(1)), E(K_(1))},
                                             {32, 1, 1},
                                             {0},
                                             LIST(FkmParam, {FKM_PARAM_TENSOR, 0, {0}, {0}},
                                                  {FKM_PARAM_VALUE, 0, E(STRIDE(0, 0)), {0}},
                                                  {FKM_PARAM_VALUE, 0, E(STRIDE(0, 1)), {0}})})})}},
        .n_steps = 1,
    },
};

static FkmKernel sample_kernels[] = {
    {"linear_fast", ".version 8.0\n.target sm_90a\n", 8, 0, "sm_90a", false,
     LIST(FkmImage, {"sm_90a", "CUBIN90", 7, 168, 1024, 16, 24})},
    {"general", ".version 7.0\n.target sm_80\n", 7, 0, "sm_80", false,
     LIST(FkmImage, {"sm_80", "CUBIN80", 7, 0, 0, 0, 0})},
    {"linear_merge", ".version 8.0\n.target sm_80\n", 8, 0, "sm_80", true, NULL, 0},
};

static FkmModule sample = {
    "fkc test",
    sample_fns,
    N_OF(sample_fns),
    LIST(FkmLeftOut, {"linear_bwd", "grad is not built yet"}),
    sample_kernels,
    N_OF(sample_kernels),
    NULL,
};

#endif
