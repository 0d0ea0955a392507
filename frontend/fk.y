/* fk.y - the grammar of LANGUAGE.md. LALR(1) without conflicts: never raise %expect.
 *
 * Actions only call constructors (ast.h). Where a newline ends a statement is decided before the
 * parser, in lex.c, so NL is an ordinary token here. After an error the parser goes on at the end
 * of the line or at the closing brace.
 */
%define api.pure full
%define api.prefix {fk_yy}
%define api.location.type {Span}
%define parse.error custom
%define parse.lac full
%locations
%expect 0
%param { Parse *p }

%code requires {
#include "frontend/ast.h"
}
%code {
#include "frontend/lex_int.h"
#include "frontend/syntax_int.h"

#define YYMAXDEPTH 20000
#define YYLLOC_DEFAULT(cur, rhs, n)                                                                \
    (cur) = (n) ? span_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n))                                    \
                : (Span){YYRHSLOC(rhs, 0).src, YYRHSLOC(rhs, 0).off + YYRHSLOC(rhs, 0).len, 0}
#define NAME_AT(text, at) ((Name){(text), (at)})
#define NO_NAME           ((Name){0})

static void fk_yyerror(Span *sp, Parse *p, const char *msg);
}

%union {
    const char *text;
    int64_t i;
    double r;
    int word; /* DType, AstReduce or AstOp */
    Expr *expr;
    Exprs *exprs;
    Names *names;
    AstAxes *axes;
    AstParams *params;
    Clauses *clauses;
    Stmt *stmt;
    Stmts *stmts;
}

%token END 0 "end of file"
%token NL "end of line"
%token CONST "const" DEF "def" FN "fn" GRAD "grad" USE "use" EXPECT "expect" WHERE "where" IN "in"
%token AND "and" OR "or" NOT "not" INF "inf" ARROW "->"
%token EQ "==" NE "!=" LE "<=" GE ">="
%token <text> NAME "name" STRING "string"
%token <i> INT "integer"
%token <r> REAL "number"
%token <word> TYPE "type" REDUCE "reduction" MAXMIN "max or min"

%left OR
%left AND
%precedence NOT
%nonassoc EQ NE '<' LE '>' GE
%left '+' '-'
%precedence REDUCTION
%left '*' '/' '%'
%precedence UMINUS
%right '^'

%type <expr> expr where number
%type <exprs> exprs dims
%type <names> names
%type <axes> axes stmt_axes
%type <params> params
%type <clauses> clauses expect
%type <stmt> stmt
%type <stmts> stmts body locals
%type <word> stmt_type clause_op

%%

file: %empty | file item;

item: CONST NAME '=' expr NL { ast_const(p, span_join(@1, @4), NAME_AT($2, @2), $4); }
    | USE STRING NL { ast_use(p, span_join(@1, @2), NAME_AT($2, @2)); }
    | GRAD NAME '=' NAME NAME '/' NAME '(' names ')' NL
        { ast_grad(p, span_join(@1, @10), NAME_AT($2, @2), NAME_AT($4, @4), NAME_AT($5, @5),
                   NAME_AT($7, @7), $9); }
    | DEF NAME '(' names ')' '=' expr NL
        { ast_def(p, span_join(@1, @7), NAME_AT($2, @2), NULL, $4, NULL, $7); }
    | DEF NAME '[' names ']' '(' names ')' '=' expr NL
        { ast_def(p, span_join(@1, @10), NAME_AT($2, @2), $4, $7, NULL, $10); }
    | DEF NAME '(' names ')' '=' '{' locals expr '}'
        { ast_def(p, @$, NAME_AT($2, @2), NULL, $4, $8, $9); }
    | DEF NAME '[' names ']' '(' names ')' '=' '{' locals expr '}'
        { ast_def(p, @$, NAME_AT($2, @2), $4, $7, $11, $12); }
    | FN NAME '(' params ')' ARROW '(' params ')' expect '{' body '}'
        { ast_fn(p, @$, NAME_AT($2, @2), $4, $8, $10, $12); }
    | FN NAME '(' ')' ARROW '(' params ')' expect '{' body '}'
        { ast_fn(p, @$, NAME_AT($2, @2), NULL, $7, $9, $11); }
    | error NL
    | error '}'
    ;

names: NAME { $$ = ast_names(p, NULL, NAME_AT($1, @1)); }
    | names ',' NAME { $$ = ast_names(p, $1, NAME_AT($3, @3)); }
    ;

params: NAME ':' TYPE dims { $$ = ast_params(p, NULL, NAME_AT($1, @1), $3, @3, $4); }
    | params ',' NAME ':' TYPE dims { $$ = ast_params(p, $1, NAME_AT($3, @3), $5, @5, $6); }
    ;
dims: %empty { $$ = NULL; }
    | '[' exprs ']' { $$ = $2; }
    ;

expect: %empty { $$ = NULL; }
    | EXPECT '{' clauses '}' { $$ = $3; }
    ;
clauses: %empty { $$ = ast_clauses(p, NULL, NO_NAME, AST_EQ, NULL, NO_NAME); }
    | clauses NAME clause_op number
        { $$ = ast_clauses(p, $1, NAME_AT($2, @2), $3, $4, NO_NAME); }
    | clauses NAME clause_op number '*' NAME
        { $$ = ast_clauses(p, $1, NAME_AT($2, @2), $3, $4, NAME_AT($6, @6)); }
    ;
clause_op: EQ { $$ = AST_EQ; }
    | LE { $$ = AST_LE; }
    | '<' { $$ = AST_LT; }
    ;
number: INT { $$ = ast_int(p, @1, $1); }
    | REAL { $$ = ast_real(p, @1, $1); }
    ;

body: %empty { $$ = ast_stmts(p, NULL, NULL); }
    | stmts
    ;
stmts: stmt { $$ = ast_stmts(p, NULL, $1); }
    | stmts NL stmt { $$ = ast_stmts(p, $1, $3); }
    ;
stmt: NAME stmt_axes stmt_type '=' expr
        { $$ = ast_stmt(p, @$, span_join(@1, @2), NAME_AT($1, @1), $2, $3, @3, $5); }
    | error { $$ = NULL; }
    ;
stmt_axes: %empty { $$ = NULL; }
    | '[' axes ']' { $$ = $2; }
    ;
stmt_type: %empty { $$ = DT_none; }
    | ':' TYPE { $$ = $2; }
    ;
locals: %empty { $$ = ast_stmts(p, NULL, NULL); }
    | locals NAME '=' expr NL
        { $$ = ast_stmts(p, $1, ast_stmt(p, span_join(@2, @4), @2, NAME_AT($2, @2), NULL,
                                         DT_none, @2, $4)); }
    | locals error NL
    ;

axes: NAME { $$ = ast_axes(p, NULL, NAME_AT($1, @1), NULL); }
    | NAME IN expr { $$ = ast_axes(p, NULL, NAME_AT($1, @1), $3); }
    | axes ',' NAME { $$ = ast_axes(p, $1, NAME_AT($3, @3), NULL); }
    | axes ',' NAME IN expr { $$ = ast_axes(p, $1, NAME_AT($3, @3), $5); }
    ;
where: %empty { $$ = NULL; }
    | WHERE expr { $$ = $2; }
    ;
exprs: expr { $$ = ast_exprs(p, NULL, $1); }
    | exprs ',' expr { $$ = ast_exprs(p, $1, $3); }
    ;

expr: number
    | INF { $$ = ast_inf(p, @1); }
    | NAME { $$ = ast_name(p, NAME_AT($1, @1)); }
    | NAME '[' exprs ']' { $$ = ast_read(p, @$, NAME_AT($1, @1), $3); }
    | NAME '[' exprs ']' '(' exprs ')' { $$ = ast_over(p, @$, NAME_AT($1, @1), $3, NULL, $6); }
    | NAME '[' exprs WHERE expr ']' '(' exprs ')'
        { $$ = ast_over(p, @$, NAME_AT($1, @1), $3, $5, $8); }
    | NAME '(' exprs ')' { $$ = ast_call(p, @$, NAME_AT($1, @1), $3); }
    | MAXMIN '(' exprs ')' { $$ = ast_call(p, @$, NAME_AT(ast_reduce_text[$1], @1), $3); }
    | TYPE '(' expr ')' { $$ = ast_cast(p, @$, NAME_AT(dtype_name($1), @1), $1, $3); }
    | '(' expr ')' { $$ = ast_paren($2); }
    | REDUCE '[' axes where ']' expr %prec REDUCTION
        { $$ = ast_reduce(p, @$, $1, NAME_AT(ast_reduce_text[$1], @1), $3, $4, $6); }
    | MAXMIN '[' axes where ']' expr %prec REDUCTION
        { $$ = ast_reduce(p, @$, $1, NAME_AT(ast_reduce_text[$1], @1), $3, $4, $6); }
    | '-' expr %prec UMINUS { $$ = ast_unary(p, @$, AST_NEG, @1, $2); }
    | NOT expr { $$ = ast_unary(p, @$, AST_NOT, @1, $2); }
    | expr '^' expr { $$ = ast_binary(p, @$, AST_POW, @2, $1, $3); }
    | expr '*' expr { $$ = ast_binary(p, @$, AST_MUL, @2, $1, $3); }
    | expr '/' expr { $$ = ast_binary(p, @$, AST_DIV, @2, $1, $3); }
    | expr '%' expr { $$ = ast_binary(p, @$, AST_MOD, @2, $1, $3); }
    | expr '+' expr { $$ = ast_binary(p, @$, AST_ADD, @2, $1, $3); }
    | expr '-' expr { $$ = ast_binary(p, @$, AST_SUB, @2, $1, $3); }
    | expr EQ expr { $$ = ast_binary(p, @$, AST_EQ, @2, $1, $3); }
    | expr NE expr { $$ = ast_binary(p, @$, AST_NE, @2, $1, $3); }
    | expr '<' expr { $$ = ast_binary(p, @$, AST_LT, @2, $1, $3); }
    | expr LE expr { $$ = ast_binary(p, @$, AST_LE, @2, $1, $3); }
    | expr '>' expr { $$ = ast_binary(p, @$, AST_GT, @2, $1, $3); }
    | expr GE expr { $$ = ast_binary(p, @$, AST_GE, @2, $1, $3); }
    | expr AND expr { $$ = ast_binary(p, @$, AST_AND, @2, $1, $3); }
    | expr OR expr { $$ = ast_binary(p, @$, AST_OR, @2, $1, $3); }
    ;

%%

/* Called by bison only when its stack is exhausted; what is wrong in the text goes to the
 * function below. */
static void fk_yyerror(Span *sp, Parse *p, const char *msg) {
    (void)msg;
    lex_too_deep(p, *sp);
}

static int yyreport_syntax_error(const yypcontext_t *ctx, Parse *p) {
    yysymbol_kind_t want[YYNTOKENS], got = yypcontext_token(ctx);
    int n = yypcontext_expected_tokens(ctx, want, YYNTOKENS);
    SyntaxError e = {.span = *yypcontext_location(ctx)};
    _Static_assert(YYMAXUTOK < SYNTAX_TOKENS, "room for every token");
    for (int tok = 0; tok <= YYMAXUTOK; tok++) {
        yysymbol_kind_t kind = YYTRANSLATE(tok);
        if (kind == YYSYMBOL_YYUNDEF || kind == YYSYMBOL_YYerror) continue;
        if (kind == got) e.got = tok;
        for (int i = 0; i < n; i++)
            if (kind == want[i]) e.want[tok] = true;
    }
    syntax_error(p, &e);
    return 0;
}
