/* unpack_gzip.c: gzip by zlib; see unpack.h. Padding behind the last member is no damage. */
#include "timeline/unpack.h"

#include <zlib.h>

#include "base/mem.h"

typedef struct {
    z_stream z;
    bool past; /* a whole member has been unpacked */
} gzip_state;

static void *open_gzip(void)
{
    gzip_state *g = mem_alloc_zeroed(MEM_RECORDS, sizeof *g);
    if (g != NULL && inflateInit2(&g->z, 15 + 16) != Z_OK) {
        mem_free(MEM_RECORDS, g, sizeof *g);
        return NULL;
    }
    return g;
}

static size_t some_gzip(void *state, unpack_input *in, char *out, size_t room)
{
    gzip_state *g = state;
    z_stream *z = &g->z;
    z->next_in = (Bytef *)in->data + in->at;
    z->avail_in = (uInt)(in->bytes - in->at);
    z->next_out = (Bytef *)out;
    z->avail_out = (uInt)room;
    int rc = inflate(z, Z_NO_FLUSH);
    bool moved = in->at != in->bytes - z->avail_in || z->avail_out != room;
    in->at = in->bytes - z->avail_in;
    if (moved) /* asked again at the very end it has nothing to say */
        in->inside = rc != Z_STREAM_END;
    if (rc == Z_STREAM_END) {
        g->past = true;
        inflateReset(z);
    } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
        /* What follows a whole member and is no other one is padding, as gzip itself takes it. */
        if (g->past && z->total_out == 0 && z->total_in <= 2)
            in->inside = false;
        in->fault = in->inside ? "the gzip data is damaged" : "";
    }
    return room - z->avail_out;
}

static void close_gzip(void *state)
{
    gzip_state *g = state;
    inflateEnd(&g->z);
    mem_free(MEM_RECORDS, g, sizeof *g);
}

const unpack_format unpack_gzip = { "gzip", open_gzip, some_gzip, close_gzip };
