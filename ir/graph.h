/* graph.h - a fn as mathematics: nodes over index domains, operands with index maps.
 *
 * A node has axes: first those of its value (`rank` of them), then, for a reduction, the reduced
 * ones. Its value is a function of the first `rank` axes, each running over [0, extent). Axes are
 * positional: IX_AXIS(k) in anything a node owns means the node's k-th axis, so that equal nodes
 * are equal whatever the user called the indices.
 *
 * An operand reads another node at an index map: one Ix over the reader's axes for each axis of the
 * node read. An IX_VALUE(n, args) inside a map is a gather: the integer value of node n at args.
 * Its args are inside that node's domain: what may fall outside is read by a node of its own.
 * A map may leave the operand's domain only when `checked` has the bit of that position set: such
 * a read gives 0 outside (data-dependent indices; reads behind a guard). All others were proved
 * inside, of a reduction under the affine conjuncts of its `where`, or a launch check of the graph
 * says so.
 *
 * Nodes are stored in topological order (operands and gathers before readers) and only primitives
 * exist: defs were expanded. Passes append nodes, redirect operands, and end with
 * graph_sweep, which restores order and drops what nobody reads.
 *
 * Types. `type` is what the value was rounded to: a cast node has any dtype; arithmetic nodes
 * have a value type (f32, i32, i64, bool). An operand of a storage type is widened exactly when it
 * is used.
 *
 * Text form: graph_print / graph_parse; grammar at the head of ir/graph_text.c.
 */
#ifndef FK_IR_GRAPH_H
#define FK_IR_GRAPH_H

#include "ir/ix.h"
#include "ir/op.h"

typedef enum NodeKind {
    N_INPUT, /* parameter `param` of the fn; axes are its dimensions */
    N_CONST, /* a number; rank 0. f32: num; i32, i64, bool: inum */
    N_INDEX, /* integer value of `ix` over the node's axes, no data in it; i64 */
    N_OP,    /* pointwise `op` of in[0..arity) */
    N_REDUCE /* `red` over the axes rank..naxes-1 of in[0], or of the product of in[0..n) for
                contract; if `where`, the last operand is a bool: elements where it is false are
                not in the domain, and nothing of them is evaluated */
} NodeKind;

typedef struct Axis {
    const char *name; /* for people; never significant */
    const Ix *extent; /* of sizes only */
} Axis;

typedef struct Operand {
    int node;
    const Ix **map;   /* one per value axis of `node` */
    uint32_t checked; /* bit d: position d may fall outside; then the operand is 0 */
} Operand;

typedef struct Node {
    int id;
    NodeKind kind;
    DType type;
    int rank, naxes; /* naxes == rank unless N_REDUCE */
    Axis *axes;
    Operand *in;
    int nin;
    Op op;
    Reduce red;
    bool where;
    double num;
    int64_t inum;
    const Ix *ix;
    int param;
    const char *name; /* of the statement that defines it; NULL for inner values */
    Span span;
    /* What `domain` finds: bounds lo <= axis < hi of each reduced axis that `where` implies, over
     * the value's axes and the reduced axes before it. NULL arrays: none; a NULL entry: the end of
     * the range. exact: the condition holds wherever all bounds do. `where` itself stays. */
    const Ix **lo, **hi;
    bool exact;
    /* What `group` decides: */
    bool store;     /* kept in memory: an output or a temporary */
    int step;       /* the step that stores it; -1 */
    char roles[16]; /* contract: per axis 'b' batch, 'm', 'n' (left/right free), 'k'; else "" */
    /* What `online` finds: reductions of one number may share a loop over what they reduce. frame:
     * the max or min of that number, the only one of them that this one depends on, whose moving
     * value may stand for the last one in what this one sums; -1: it depends on none. */
    int loop, frame; /* -1 */
    /* What `block` makes: what a block of a larger reduction comes to, which another joins. */
    bool part;
} Node;

typedef struct Param {
    const char *name;
    DType type;
    int rank;
    const Ix **dims; /* of sizes only */
    bool out;
    int node; /* input: its N_INPUT node; output: the node whose value is stored there */
    Span span;
} Param;

typedef struct SizeSym {
    const char *name;
    Span span;
} SizeSym;

/* A condition on sizes that must hold at launch: e >= 0, unless a domain is empty (`unless`, an
 * extent that is 0; NULL: always checked). text: "the read x[t - 1] starts below 0"; needed/found
 * are the two numbers shown. */
typedef struct Check {
    const Ix *e, *unless;
    const Ix *needed, *found;
    const char *text;
    Span span;
} Check;

/* size = (expr - rest) / div from dimension `dim` of parameter `param`; div must divide exactly.
 * Solved in order; every dimension is then compared with its expression. */
typedef struct Solve {
    int size, param, dim;
    const Ix *num; /* of sizes already known, and IX_VALUE(0) for the extent of that dimension */
    int64_t div;
} Solve;

typedef struct Expect {
    const char *metric; /* kernels spills hbm workspace */
    const char *cmp;    /* == <= < */
    double number;
    bool io; /* times the bytes of all parameters */
    Span span;
} Expect;

/* A cut or a join of two values by `group`, for the report. Prices in microseconds; < 0: none. */
typedef struct Edge {
    int from, to;
    bool cut;
    const char *reason;
    double price, other; /* predicted time as decided, and of the other choice */
} Edge;

typedef struct Graph {
    Arena *arena;
    IxPool *ix;
    const char *name; /* of the fn */
    Span span;        /* of that name */
    VEC(SizeSym) sizes;
    VEC(Param) params; /* inputs, then outputs, in signature order */
    VEC(Node *) nodes; /* nodes.v[i]->id == i */
    VEC(Check) checks;
    VEC(Solve) solve;
    VEC(Expect) expect;
    VEC(Edge) edges;
} Graph;

Graph *graph_new(Arena *a, const char *name);
int graph_size(Graph *g, const char *name, Span sp); /* finds or adds */

/* Appends a node with room for naxes axes and nin operands (zeroed); the caller fills them. */
Node *graph_node(Graph *g, NodeKind kind, DType type, int rank, int naxes, int nin);
void graph_map(Graph *g, Operand *o, int node); /* sets o->node and allocates o->map */

/* The same graph without unreachable nodes, renumbered in topological order. Used at the end of
 * every rebuilding pass. `outputs` are the params' nodes. */
void graph_sweep(Graph *g);
Graph *graph_clone(const Graph *g, Arena *a);

/* Text. graph_parse gives NULL and diagnostics on bad text; parse(print(g)) prints the same. */
void graph_print(Str *out, const Graph *g);
Graph *graph_parse(Arena *a, const Source *src, Diags *d);

/* Checks every rule above; false with one line a fault in `why`. */
bool graph_verify(const Graph *g, Str *why);

/* Names for ix_print of what node n owns; arrays in g->arena. */
IxNames graph_names(const Graph *g, const Node *n);

/* Number of elements of a node's value / bytes a parameter fills, as expressions of sizes. */
const Ix *graph_count(const Graph *g, const Node *n);
const Ix *graph_param_bytes(const Graph *g, const Param *p);

#endif
