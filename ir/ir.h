/* ir.h - the one header of this folder: everything between the source text and the machine. */
#ifndef FK_IR_H
#define FK_IR_H

#include "ir/base/base.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include "ir/ix.h"
#include "ir/graph.h"
#include "ir/infer.h"
#include "ir/tile.h"
#include "ir/schedule.h"
#include "ir/mma.h"
#include "ir/plan.h"
#include "ir/target.h"
#include "ir/kernel.h"
#include "ir/eval.h"
#include "ir/sample.h"

#endif
