/* unpack_zstd.c: zstd by its library; see unpack.h. */
#include "timeline/unpack.h"

#include <zstd.h>

static void *open_zstd(void)
{
    return ZSTD_createDStream();
}

static size_t some_zstd(void *state, unpack_input *in, char *out, size_t room)
{
    if (in->at == in->bytes && !in->inside)
        return 0; /* between frames, and nothing more came */
    ZSTD_inBuffer from = { in->data, in->bytes, in->at };
    ZSTD_outBuffer to = { out, room, 0 };
    size_t rc = ZSTD_decompressStream(state, &to, &from);
    in->at = from.pos;
    if (ZSTD_isError(rc))
        in->fault = "the zstd data is damaged";
    in->inside = rc != 0;
    return to.pos;
}

static void close_zstd(void *state)
{
    ZSTD_freeDStream(state);
}

const unpack_format unpack_zstd = { "zstd", open_zstd, some_zstd, close_zstd };
