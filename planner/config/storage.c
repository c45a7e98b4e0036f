/* SPDX-License-Identifier: Apache-2.0 */

/* `storage` of a layout: dimensions of tensors in another order. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "field.h"
#include "layout.h"
#include "names.h"

enum { STORAGE_TENSOR, STORAGE_DIMS, STORAGE_FIELD_COUNT };

/* Each dimension of the tensor once. */
static void check_dims(struct cfg_scope *scope)
{
    const struct cfg_storage *storage = scope->object;
    uint32_t seen = 0;
    if (!cfg_scope_usable(scope, CFG_BIT(STORAGE_DIMS)))
        return;
    for (uint32_t d = 0; d < storage->ndim; d++)
        seen |= storage->dims[d] < storage->ndim ? 1u << storage->dims[d] : 0;
    if (seen != (1u << storage->ndim) - 1)
        cfg_scope_report(scope, "dims", "found another list, expected each of the dimensions 0 to %" PRIu32 " once",
                         storage->ndim - 1);
}

static const struct cfg_field storage_fields[] = {
    [STORAGE_TENSOR] = {.key = "tensor",
                        .type = CFG_TEXT,
                        .required = true,
                        CFG_MEMBER(struct cfg_storage, tensor),
                        .accept = cfg_accept_tensor_name,
                        .help = "Name as the model writes it, with {i} and {e}"},
    [STORAGE_DIMS] = {.key = "dims",
                      .type = CFG_ARRAY,
                      .required = true,
                      CFG_MEMBER(struct cfg_storage, dims),
                      CFG_NUMBER(struct cfg_storage, ndim),
                      .min = 2,
                      .max = SHUNT_MAX_DIMS,
                      .element_max = SHUNT_MAX_DIMS - 1,
                      .zero_too = true,
                      .help = "The tensor's dimensions as they lie in memory, the outermost first; [1, 0] is a matrix "
                              "that is stored transposed"},
};

const struct cfg_table cfg_storage_table = {
    .help = "A tensor whose dimensions lie in memory in another order than the model's",
    .fields = storage_fields,
    .field_count = STORAGE_FIELD_COUNT,
    .size = sizeof(struct cfg_storage),
    CFG_POS(struct cfg_storage, pos),
    .check = check_dims,
};

static int compare_entries(const void *a_, const void *b_)
{
    const struct cfg_storage *a = *(const struct cfg_storage *const *)a_;
    const struct cfg_storage *b = *(const struct cfg_storage *const *)b_;
    int order = strcmp(a->tensor, b->tensor);
    return order != 0 ? order : a < b ? -1 : a > b;
}

static void report_second(struct cfg_scope *scope, const struct cfg_storage *first, const struct cfg_storage *second)
{
    const struct cfg_layout *layout = scope->object;
    const struct cfg_path list = {.up = scope->path, .key = "storage"};
    const struct cfg_path path = {.up = &list, .index = (uint64_t)(second - layout->storage)};
    char quoted[CFG_QUOTE_BYTES];
    cfg_report(scope->loader->diag, second->pos, &path,
               "found %s a second time (first on line %" PRIu32 "), expected distinct tensors",
               cfg_quote(quoted, second->tensor, strlen(second->tensor)), first->pos.line);
}

void cfg_storage_check(struct cfg_scope *scope)
{
    const struct cfg_layout *layout = scope->object;
    if (layout->storage_count == 0)
        return;
    const struct cfg_storage **sorted = cfg_alloc(layout->storage_count * sizeof(*sorted));
    if (sorted == NULL) {
        scope->loader->out_of_memory = true;
        return;
    }
    for (uint32_t s = 0; s < layout->storage_count; s++)
        sorted[s] = &layout->storage[s];
    qsort(sorted, layout->storage_count, sizeof(*sorted), compare_entries);
    for (uint32_t s = 1; s < layout->storage_count; s++) {
        if (strcmp(sorted[s - 1]->tensor, sorted[s]->tensor) == 0)
            report_second(scope, sorted[s - 1], sorted[s]);
    }
    free(sorted);
}
