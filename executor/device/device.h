/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHUNT_EXECUTOR_DEVICE_H
#define SHUNT_EXECUTOR_DEVICE_H

/**
 * Kinds of device memory: one row of functions each.
 *
 * Work is put on streams: it is done in order within one stream, and between streams where an event says so.
 * On the host a stream is nothing (NULL), and work is done before the call returns. Memory, too, belongs to a
 * stream: it is there for what is put on that stream after alloc(), and may be freed while earlier work of that
 * stream still uses it.
 *
 * What an op of a plan does is told once, before a run, as a program; its ends are places in a table of base
 * addresses, which are filled in as buffers come to life.
 *
 * Errors: the text names the failing call. The caller adds device and round.
 */

#include <stdbool.h>

#include "shunt/plan.h"

struct device_ops;
struct device_stream;
struct device_event;
struct device_program;

/** An opened device; the head of every kind's own struct. */
struct shunt_device {
    const struct device_ops *ops;
    uint32_t ordinal;
};

/** One op of a plan. A place in the table of bases, and an offset from there. */
struct device_end {
    uint32_t base;
    uint64_t offset;
    const struct shunt_plan_view *view;
};
struct device_work {
    struct device_end dst, src; /* without a source: zeros */
    uint8_t cast;               /* enum shunt_plan_cast */
    bool zero;
    bool skipped; /* not to be done */
};

struct device_ops {
    const char *name;
    /** Work outlives the calls that ask for it: there are streams, and host code must not touch device memory. */
    bool asynchronous;

    enum shunt_status (*open)(uint32_t ordinal, struct shunt_device **device_out, struct shunt_err *err);
    void (*close)(struct shunt_device *device);

    /** A stream for one engine. The device has one more, for messages. */
    enum shunt_status (*stream_create)(struct shunt_device *device, struct device_stream **stream_out,
                                       struct shunt_err *err);
    void (*stream_destroy)(struct shunt_device *device, struct device_stream *stream);
    struct device_stream *(*wire)(struct shunt_device *device);
    /** Wait for all of a stream. @return SHUNT_ERR_TIMEOUT */
    enum shunt_status (*stream_finish)(struct shunt_device *device, struct device_stream *stream, double seconds,
                                       struct shunt_err *err);

    /** @param timed  for event_seconds() */
    enum shunt_status (*event_create)(struct shunt_device *device, bool timed, struct device_event **event_out,
                                      struct shunt_err *err);
    void (*event_destroy)(struct shunt_device *device, struct device_event *event);
    enum shunt_status (*event_record)(struct shunt_device *device, struct device_event *event,
                                      struct device_stream *stream, struct shunt_err *err);
    /** What is put on the stream from now on comes after what the event was recorded behind. */
    enum shunt_status (*event_join)(struct shunt_device *device, struct device_event *event,
                                    struct device_stream *stream, struct shunt_err *err);
    /** Whether all is done that the event was recorded behind. */
    enum shunt_status (*event_poll)(struct shunt_device *device, struct device_event *event, bool *done_out,
                                    struct shunt_err *err);

    /** The time between two timed events, which are done. Only where work is asynchronous. */
    enum shunt_status (*event_seconds)(struct shunt_device *device, struct device_event *from, struct device_event *to,
                                       double *seconds_out, struct shunt_err *err);

    /** At least 64-byte aligned; on the host zeroed. bytes may be 0. @return SHUNT_ERR_NOMEM when there is none left */
    enum shunt_status (*alloc)(struct shunt_device *device, struct device_stream *stream, uint64_t bytes,
                               void **ptr_out, struct shunt_err *err);
    /** bytes as given to alloc; accepts NULL. */
    void (*free)(struct shunt_device *device, struct device_stream *stream, void *ptr, uint64_t bytes);
    /** By how much the device's free memory has shrunk since it was opened, as its driver says; NULL: it cannot say. */
    enum shunt_status (*taken)(struct shunt_device *device, uint64_t *bytes_out, struct shunt_err *err);
    /** Host memory that the device reaches; usable at once, and to be freed when nothing uses it. */
    enum shunt_status (*alloc_host)(struct shunt_device *device, uint64_t bytes, void **ptr_out, struct shunt_err *err);
    void (*free_host)(struct shunt_device *device, void *ptr, uint64_t bytes);
    /** Let the device reach host memory of somebody else; sets whether there is something to undo. */
    enum shunt_status (*lend_host)(struct shunt_device *device, void *ptr, uint64_t bytes, bool *lent_out,
                                   struct shunt_err *err);
    void (*return_host)(struct shunt_device *device, void *ptr);

    /** Both ends are memory that the device reaches. */
    enum shunt_status (*copy)(struct shunt_device *device, struct device_stream *stream, void *dst, const void *src,
                              uint64_t bytes, struct shunt_err *err);
    enum shunt_status (*fill)(struct shunt_device *device, struct device_stream *stream, void *dst, unsigned char byte,
                              uint64_t bytes, struct shunt_err *err);

    /** work must outlive the program, which runs on this stream. Boxes of an op have one shape, and do not overlap. */
    enum shunt_status (*program_create)(struct shunt_device *device, struct device_stream *stream,
                                        const struct device_work *work, uint32_t count, uint32_t base_count,
                                        struct device_program **program_out, struct shunt_err *err);
    /** The stream is idle. */
    void (*program_destroy)(struct shunt_device *device, struct device_program *program);
    /** Bytes of device memory that the program itself takes. */
    uint64_t (*program_bytes)(const struct device_program *program);
    /** Every base that an op uses is set before it runs, and stays until that is done. */
    void (*program_bind)(struct device_program *program, uint32_t base, void *address);
    /** Ops [begin, end), in any order. */
    enum shunt_status (*program_run)(struct shunt_device *device, struct device_program *program, uint32_t begin,
                                     uint32_t end, struct shunt_err *err);
};

extern const struct device_ops device_host;
#ifdef SHUNT_HAVE_CUDA
extern const struct device_ops device_cuda;
#endif

/** The host's memory; never closed. */
struct shunt_device *device_of_host(void);

/** One row of the list of devices that this program knows, built in or not. */
struct device_row {
    const char *name;
    const char *summary;          /* one line for --list */
    const struct device_ops *ops; /* NULL: not in this build */
    const char *missing;          /* why not */
};

/** NULL-terminated by a row without name. */
extern const struct device_row device_rows[];

/** "NAME" or "NAME:ORDINAL". @return SHUNT_ERR_UNSUPPORTED (not in this build), SHUNT_ERR_USAGE (no such device) */
enum shunt_status device_find(const char *name, const struct device_ops **ops_out, uint32_t *ordinal_out,
                              struct shunt_err *err);

#endif
