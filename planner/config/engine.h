/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_PLANNER_CONFIG_ENGINE_H
#define SHUNT_PLANNER_CONFIG_ENGINE_H

/**
 * Schema as data: a table beside each struct says which keys a mapping may have, what each
 * means and where it goes. One engine fills any struct from any table, and the JSON schemas for
 * editors are printed from the same tables (tools/gen-json-schema.c).
 *
 * All problems of a document are reported in one run: the engine goes on after each, and a
 * table's own check is told which fields can be relied on.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "yaml_tree.h"

struct cfg_table;
struct cfg_field;

enum cfg_type {
    CFG_TEXT,     /* char *, owned */
    CFG_COUNT,    /* integer of `size` bytes, min..max */
    CFG_BOOL,     /* bool */
    CFG_CHOICE,   /* integer of `size` bytes: the value of one of the choices */
    CFG_SIZE,     /* uint64_t, bytes, min..max */
    CFG_RATE,     /* double, bytes per second, above 0 */
    CFG_DURATION, /* double, seconds */
    CFG_TABLE,    /* nested mapping; `table` is filled at offset */
    CFG_ARRAY,    /* list of min..max counts, int64_t[max] inside the struct */
    CFG_LIST,     /* list of min..max counts (int64_t) or mappings (`table`), allocated */
    CFG_CUSTOM,   /* `read` does it; with choices: a list of some of them */
    CFG_TYPE_COUNT
};

struct cfg_choice {
    const char *name; /* NULL ends a list */
    int32_t value;
};

struct cfg_loader {
    struct cfg_diag *diag;
    bool out_of_memory;
    uint32_t numbers; /* walked by cfg_site_numbers() so far */
};

/** Where a value is read: what a reader needs besides the field. */
struct cfg_site {
    struct cfg_loader *loader;
    const struct cfg_node *node;
    const struct cfg_path *path;
};

typedef bool cfg_read_function(const struct cfg_site *site, const struct cfg_field *field, void *object);

struct cfg_field {
    const char *key;
    enum cfg_type type;
    bool required;
    size_t offset, size;  /* of the member; size 0: checked, but not kept */
    size_t pos_member;    /* 1 + offset of a cfg_pos; 0: none */
    size_t count_member;  /* 1 + offset of the uint32_t that counts a list or array */
    int64_t min, max;     /* counts, sizes; entries of lists and arrays */
    int64_t element_max;  /* counts in a list or array are 1..element_max */
    bool zero_too;        /* or 0 */
    int64_t absent;       /* stored for a count or choice that is not written */
    const char *fallback; /* text read in place of a value that is not written */
    const struct cfg_choice *choices;
    const char *(*choice_name)(unsigned value); /* instead of `choices`: names of 0, 1, ..., then NULL */
    const struct cfg_table *table;              /* of a custom field: the mapping that it may be, among other things */
    const char *(*accept)(const char *text, size_t length); /* of a text: NULL, or what is expected instead */
    cfg_read_function *read;
    const char *expected; /* of a custom field: "a device list such as 0-7" */
    const char *json;     /* of a custom field or text: members of its JSON schema */
    const char *help;
};

/** offset and size of a member, for designated initialisers */
#define CFG_MEMBER(type, member) .offset = offsetof(type, member), .size = sizeof(((type *)0)->member)
#define CFG_POS(type, member)    .pos_member = 1 + offsetof(type, member)
#define CFG_NUMBER(type, member) .count_member = 1 + offsetof(type, member)

/** A mapping that was read. `usable` has bit k set when field k was read or rightly left out. */
struct cfg_scope {
    struct cfg_loader *loader;
    const struct cfg_node *node;
    const struct cfg_path *path;
    void *object;
    uint64_t usable;
};

#define CFG_BIT(field) (UINT64_C(1) << (field))

struct cfg_table {
    const char *help;
    const struct cfg_field *fields; /* at most 64 */
    uint32_t field_count;
    size_t size;                            /* of the struct; for lists of it */
    size_t pos_member;                      /* 1 + offset of a cfg_pos; 0: none */
    void (*check)(struct cfg_scope *scope); /* what several fields decide together; may be NULL */
    void (*release)(void *object);          /* what custom readers allocated; may be NULL */
    const char *json;                       /* more members of its JSON schema; may be NULL */
};

/** Fill a zeroed object from a mapping. @return false when anything was reported or memory ran out */
bool cfg_table_fill(const struct cfg_table *table, const struct cfg_site *site, void *object);

/** Release what the object owns through its table, not the object. */
void cfg_table_release(const struct cfg_table *table, void *object);

/** Are all these fields (bits) usable? */
bool cfg_scope_usable(const struct cfg_scope *scope, uint64_t bits);

/**
 * Report a problem of a field of this mapping.
 *
 * @param field  dotted keys, "cut.segments"; the position is that of the innermost one that was written
 */
void cfg_scope_report(const struct cfg_scope *scope, const char *field, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** For custom readers: report `found ..., expected EXPECTED`; reason may be NULL. Returns false. */
bool cfg_site_refuse(const struct cfg_site *site, const struct cfg_field *field, const char *reason);

/** Is the value a scalar? A list or mapping is reported. */
bool cfg_site_scalar(const struct cfg_site *site, const struct cfg_field *field);

/** The same, and not in quotes, as counts and booleans never are. */
bool cfg_site_plain(const struct cfg_site *site, const struct cfg_field *field);

/** Is it a list of field->min to field->max entries? Anything else is reported. */
bool cfg_site_list(const struct cfg_site *site, const struct cfg_field *field);

/** For custom readers: what to do with each number of a list, in the order written. @return false when it was reported */
typedef bool cfg_number_function(void *context, const struct cfg_site *site, uint64_t number);

/**
 * For custom readers: walk "8-15", "0-3,8-11", 5 or [8, 9, 10, 11], numbers of at most field->max. Ranges count
 * upwards. Stops at the first number of a text that `use` refuses, and at none of a list. All lists of a document
 * together may have CFG_MAX_NUMBERS, each walked twice: a range is a short text.
 */
bool cfg_site_numbers(const struct cfg_site *site, const struct cfg_field *field, cfg_number_function *use,
                      void *context);

#define CFG_MAX_NUMBERS (1 << 22)

/** Members of the JSON schema of such a list, numbers below 2^20. */
#define CFG_NUMBERS_JSON                                                                                               \
    "\"oneOf\": [{\"type\": \"string\", \"pattern\": \"^[0-9]+(-[0-9]+)?(, ?[0-9]+(-[0-9]+)?)*$\"}, "                  \
    "{\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1048575}, "                                                  \
    "{\"type\": \"array\", \"minItems\": 1, \"maxItems\": 1048576, \"uniqueItems\": true, "                            \
    "\"items\": {\"type\": \"integer\", \"minimum\": 0, \"maximum\": 1048575}}]"

/** Allocate for a custom reader; notes a failure in the loader. */
void *cfg_site_alloc(const struct cfg_site *site, size_t bytes);

/** The index-th choice of a field, in the order to be printed; false behind the last. */
bool cfg_field_choice(const struct cfg_field *field, uint32_t index, struct cfg_choice *choice_out);

#endif
