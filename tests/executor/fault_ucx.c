/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Preloaded into a process that uses UCX: spoils one of the messages that it sends.
 *
 *     SHUNT_SPOIL=corrupt:N:BYTE    the Nth payload message goes out with a bit of byte BYTE (modulo its size) flipped
 *     SHUNT_SPOIL=drop:N            it does not go out, and counts as sent
 *     SHUNT_SPOIL=cut:N             it goes out 16 bytes shorter
 *
 * What is spoilt is a copy: the sender's own memory stays as it is. Payload is what has a tag of a round; see
 * ucx_data.c and ucx_control.c.
 */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

#define ROUND_SHIFT 20
#define ROUND_BITS  22
#define ROUNDS      (1u << 20)

static bool is_payload(ucp_tag_t tag)
{
    return tag >> 56 == 0 && ((tag >> ROUND_SHIFT) & ((1u << ROUND_BITS) - 1)) < ROUNDS;
}

typedef ucs_status_ptr_t (*send_function)(ucp_ep_h, const void *, size_t, ucp_tag_t, const ucp_request_param_t *);

__attribute__((visibility("default"))) ucs_status_ptr_t
ucp_tag_send_nbx(ucp_ep_h ep, const void *buffer, size_t count, ucp_tag_t tag, const ucp_request_param_t *param)
{
    static unsigned long seen;
    send_function next;
    char kind[16] = "";
    unsigned long number = 0, byte = 0;
    const char *text = getenv("SHUNT_SPOIL");
    /* loaded by now, and in nobody's scope */
    *(void **)&next = dlsym(dlopen("libucp.so.0", RTLD_NOW | RTLD_NOLOAD), "ucp_tag_send_nbx");
    if (text == NULL || sscanf(text, "%15[a-z]:%lu:%lu", kind, &number, &byte) < 2 || !is_payload(tag) || count < 32 ||
        ++seen != number)
        return next(ep, buffer, count, tag, param);
    fprintf(stderr, "fault_ucx: %s message %lu of %zu bytes\n", kind, number, count);
    if (strcmp(kind, "drop") == 0)
        return NULL;
    char *copy = malloc(count); /* UCX reads it until the request is done; it is not worth following */
    memcpy(copy, buffer, count);
    if (strcmp(kind, "corrupt") == 0)
        copy[byte % count] ^= 0x20;
    return next(ep, copy, strcmp(kind, "cut") == 0 ? count - 16 : count, tag, param);
}
