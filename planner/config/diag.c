/* SPDX-License-Identifier: Apache-2.0 */
#include "diag.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

/* Longest path written; the outermost part is cut, the field itself stays. */
#define PATH_BYTES 256

/**
 * Append one character, escaped if it could disturb a terminal or a line. Bytes from 0x80 on are
 * UTF-8 and stay, but for the C1 controls (0xC2 0x80..0x9F), whose second byte is escaped.
 */
static size_t put_char(char *buffer, size_t used, const char *text, size_t index)
{
    unsigned char byte = (unsigned char)text[index];
    bool c1 = index > 0 && (unsigned char)text[index - 1] == 0xC2 && byte < 0xA0 && byte >= 0x80;
    if (byte >= 0x20 && byte != 0x7F && !c1) {
        buffer[used] = (char)byte;
        return used + 1;
    }
    return used + (size_t)snprintf(buffer + used, 5, "\\x%02X", byte);
}

static bool starts_character(char byte)
{
    return ((unsigned char)byte & 0xC0) != 0x80;
}

const char *cfg_quote(char buffer[CFG_QUOTE_BYTES], const char *text, size_t length)
{
    size_t used = 0;
    buffer[used++] = '"';
    for (size_t i = 0; i < length; i++) {
        /* cut between characters, with room for `..."` and the NUL; anywhere if this is not UTF-8 */
        if (used > CFG_QUOTE_BYTES - 24 && (starts_character(text[i]) || used > CFG_QUOTE_BYTES - 12)) {
            memcpy(buffer + used, "...", 3);
            used += 3;
            break;
        }
        used = put_char(buffer, used, text, i);
    }
    buffer[used++] = '"';
    buffer[used] = '\0';
    return buffer;
}

/* The last part of the path, of at most `size` bytes, right-aligned in buffer. */
static const char *path_text(const struct cfg_path *path, char *buffer, size_t size)
{
    size_t at = size - 1;
    buffer[at] = '\0';
    for (const struct cfg_path *p = path; p != NULL; p = p->up) {
        char part[CFG_QUOTE_BYTES + 2];
        size_t length;
        if (p->key != NULL) {
            char quoted[CFG_QUOTE_BYTES];
            cfg_quote(quoted, p->key, p->key_length != 0 ? p->key_length : strlen(p->key));
            length = strlen(quoted) - 2;
            memcpy(part + 1, quoted + 1, length);
            part[0] = '.';
            length++;
        } else {
            length = (size_t)snprintf(part, sizeof(part), "[%" PRIu64 "]", p->index);
        }
        if (length + 3 > at) {
            memcpy(buffer + (at -= 3), "...", 3);
            return buffer + at;
        }
        memcpy(buffer + (at -= length), part, length);
    }
    if (buffer[at] == '.')
        at++;
    return buffer[at] != '\0' ? buffer + at : "document";
}

void cfg_report(struct cfg_diag *diag, struct cfg_pos pos, const struct cfg_path *path, const char *format, ...)
{
    diag->count++;
    if (diag->out == NULL || diag->count > CFG_MAX_PROBLEMS)
        return;
    char buffer[PATH_BYTES];
    fprintf(diag->out, "%s:%" PRIu32 ":%" PRIu32 ": %s: ", diag->file, pos.line, pos.column,
            path_text(path, buffer, sizeof(buffer)));
    va_list args;
    va_start(args, format);
    vfprintf(diag->out, format, args);
    va_end(args);
    fputc('\n', diag->out);
}

void cfg_diag_finish(struct cfg_diag *diag)
{
    if (diag->out != NULL && diag->count > CFG_MAX_PROBLEMS)
        fprintf(diag->out, "%s: %" PRIu64 " more problems\n", diag->file, diag->count - CFG_MAX_PROBLEMS);
}
