/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The only file that calls GLPK. Its errors end the process unless a hook jumps away, its memory belongs to the
 * thread that made it, and it prints. So every solve is one call under one lock: it makes an environment, jumps out
 * of every error, and takes the environment down with all that is in it.
 */
#include "solve/backend.h"

#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static jmp_buf on_error; /* under the lock */

static void jump(void *info)
{
    (void)info;
    longjmp(on_error, 1);
}

static int swallow(void *info, const char *text)
{
    (void)info;
    (void)text;
    return 1;
}

static int bound_kind(double lower, double upper)
{
    if (isinf(lower))
        return isinf(upper) ? GLP_FR : GLP_UP;
    if (isinf(upper))
        return GLP_LO;
    return lower < upper ? GLP_DB : GLP_FX;
}

struct triplets {
    int *rows, *columns;
    double *values;
};

static glp_prob *load(const struct lp_model *model, const struct triplets *triplets)
{
    glp_prob *problem = glp_create_prob();
    glp_set_obj_dir(problem, GLP_MIN);
    if (model->column_count > 0)
        glp_add_cols(problem, model->column_count);
    if (model->row_count > 0)
        glp_add_rows(problem, model->row_count);
    for (int c = 0; c < model->column_count; c++) {
        const struct lp_column *column = &model->columns[c];
        glp_set_obj_coef(problem, c + 1, column->cost);
        glp_set_col_bnds(problem, c + 1, bound_kind(column->lower, column->upper), column->lower, column->upper);
        if (column->whole)
            glp_set_col_kind(problem, c + 1, GLP_IV);
    }
    for (int r = 0; r < model->row_count; r++)
        glp_set_row_bnds(problem, r + 1, bound_kind(model->rows[r].lower, model->rows[r].upper), model->rows[r].lower,
                         model->rows[r].upper);
    glp_load_matrix(problem, model->entry_count, triplets->rows, triplets->columns, triplets->values);
    return problem;
}

static enum lp_status simplex_status(glp_prob *problem, int code)
{
    if (code == GLP_EITLIM || code == GLP_ETMLIM)
        return LP_LIMIT;
    if (code == GLP_ENOPFS)
        return LP_INFEASIBLE;
    if (code == GLP_ENODFS)
        return LP_UNBOUNDED;
    if (code != 0)
        return LP_FAILED;
    switch (glp_get_status(problem)) {
    case GLP_OPT:
        return LP_OPTIMAL;
    case GLP_NOFEAS:
        return LP_INFEASIBLE;
    case GLP_UNBND:
        return LP_UNBOUNDED;
    default:
        return LP_FAILED;
    }
}

static int limit_of(double seconds)
{
    double ms = seconds * 1000;
    return seconds <= 0 || ms > 2e9 ? INT_MAX : ms < 1 ? 1 : (int)ms;
}

static void run_simplex(glp_prob *problem, const struct lp_model *model, const struct lp_attempt *attempt,
                        struct lp_answer *answer)
{
    glp_smcp options;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.meth = attempt->method == LP_DUAL ? GLP_DUALP : GLP_PRIMAL;
    options.presolve = attempt->method == LP_PRESOLVED ? GLP_ON : GLP_OFF;
    options.it_lim = attempt->iterations;
    options.tm_lim = limit_of(attempt->seconds);
    if (attempt->method != LP_PRESOLVED)
        glp_adv_basis(problem, 0);
    int code = glp_simplex(problem, &options);
    answer->status = simplex_status(problem, code);
    answer->iterations += glp_get_it_cnt(problem);
    answer->has_values = glp_get_prim_stat(problem) == GLP_FEAS;
    answer->has_prices = glp_get_dual_stat(problem) == GLP_FEAS;
    for (int c = 0; c < model->column_count && answer->has_values; c++)
        answer->values[c] = glp_get_col_prim(problem, c + 1);
    for (int r = 0; r < model->row_count && answer->has_prices; r++)
        answer->prices[r] = glp_get_row_dual(problem, r + 1);
}

/** What the search over whole numbers may use, and what it has found. */
struct search {
    const struct lp_model *model;
    const struct lp_attempt *attempt;
    double *start; /* from 1; NULL: none, or told */
    double bound;
    int nodes;
};

static void watch(glp_tree *tree, void *info)
{
    struct search *search = info;
    int best = glp_ios_best_node(tree);
    if (best != 0)
        search->bound = glp_ios_node_bound(tree, best);
    if (glp_ios_reason(tree) == GLP_IHEUR && search->start != NULL) {
        glp_ios_heur_sol(tree, search->start);
        search->start = NULL;
    }
    if (glp_ios_reason(tree) == GLP_ISELECT) {
        glp_ios_tree_size(tree, NULL, NULL, &search->nodes);
        if (search->nodes > search->attempt->nodes)
            glp_ios_terminate(tree);
    }
}

static void run_search(glp_prob *problem, const struct lp_model *model, const struct lp_attempt *attempt, double *start,
                       struct lp_answer *answer)
{
    glp_iocp options;
    struct search search = {.model = model, .attempt = attempt, .start = start, .bound = glp_get_obj_val(problem)};
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.tm_lim = limit_of(attempt->seconds);
    options.mip_gap = attempt->gap;
    options.bt_tech = GLP_BT_DFS; /* nodes are few: what they find counts for more than the bound */
    options.cb_func = watch;
    options.cb_info = &search;
    int code = glp_intopt(problem, &options);
    int found = glp_mip_status(problem);
    answer->searched = true;
    answer->has_prices = false;
    answer->has_values = found == GLP_OPT || found == GLP_FEAS;
    for (int c = 0; c < model->column_count && answer->has_values; c++)
        answer->values[c] = glp_mip_col_val(problem, c + 1);
    answer->nodes = search.nodes;
    bool whole_tree = code == 0 && (found == GLP_OPT || found == GLP_NOFEAS);
    answer->bound = code == 0 && found == GLP_OPT ? glp_mip_obj_val(problem) : search.bound;
    if (whole_tree)
        answer->status = found == GLP_OPT ? LP_OPTIMAL : LP_INFEASIBLE;
    else if (code == GLP_EMIPGAP || code == GLP_ESTOP || code == GLP_ETMLIM)
        answer->status = LP_LIMIT;
    else
        answer->status = LP_FAILED;
}

/** All memory that must outlive a jump. */
struct work {
    struct triplets triplets;
    double *start;
};

static void work_free(struct work *work)
{
    free(work->triplets.rows);
    free(work->triplets.columns);
    free(work->triplets.values);
    free(work->start);
}

/** Arrays as GLPK wants them: from 1 on. @return false when memory runs out */
static bool work_init(struct work *work, const struct lp_model *model, const struct lp_attempt *attempt)
{
    size_t entries = (size_t)model->entry_count + 1;
    *work = (struct work){{calloc(entries, sizeof(int)), calloc(entries, sizeof(int)), calloc(entries, sizeof(double))},
                          calloc((size_t)model->column_count + 1, sizeof(double))};
    if (work->triplets.rows == NULL || work->triplets.columns == NULL || work->triplets.values == NULL ||
        work->start == NULL)
        return false;
    for (int e = 0; e < model->entry_count; e++) {
        work->triplets.rows[e + 1] = model->entries[e].row + 1;
        work->triplets.columns[e + 1] = model->entries[e].column + 1;
        work->triplets.values[e + 1] = model->entries[e].value;
    }
    for (int c = 0; c < model->column_count && attempt->start != NULL; c++)
        work->start[c + 1] = attempt->start[c];
    return true;
}

static bool has_whole(const struct lp_model *model)
{
    for (int c = 0; c < model->column_count; c++) {
        if (model->columns[c].whole)
            return true;
    }
    return false;
}

static void solve_guarded(struct work *work, const struct lp_model *model, const struct lp_attempt *attempt,
                          struct lp_answer *answer)
{
    glp_prob *problem = load(model, &work->triplets);
    run_simplex(problem, model, attempt, answer);
    if (answer->status == LP_OPTIMAL && has_whole(model))
        run_search(problem, model, attempt, attempt->start != NULL ? work->start : NULL, answer);
}

void backend_solve(const struct lp_model *model, const struct lp_attempt *attempt, struct lp_answer *answer_out)
{
    struct work work;
    answer_out->status = LP_FAILED;
    answer_out->has_values = answer_out->has_prices = false;
    if (!work_init(&work, model, attempt)) {
        work_free(&work);
        return;
    }
    pthread_mutex_lock(&lock);
    if (setjmp(on_error) == 0) {
        glp_init_env();
        glp_term_hook(swallow, NULL);
        glp_term_out(GLP_OFF);
        glp_error_hook(jump, NULL);
        solve_guarded(&work, model, attempt, answer_out);
    } else {
        answer_out->status = LP_FAILED;
        answer_out->has_values = answer_out->has_prices = false;
    }
    glp_free_env(); /* with every problem in it */
    pthread_mutex_unlock(&lock);
    work_free(&work);
}

#define TEXT_OF(x)         #x
#define NAME(major, minor) "GLPK " TEXT_OF(major) "." TEXT_OF(minor)

const char *backend_name(void)
{
    return NAME(GLP_MAJOR_VERSION, GLP_MINOR_VERSION);
}
