"""llama_peer.py: llama.cpp through llama-cpp-python's low-level calls, for the comparisons beside this file.

One context of one sequence: feed token ids, get logits. Everything that could make the comparison unfair is set
here and nowhere else: threads, f16 K/V, no flash attention, weights read into memory (not mapped, so that no
page fault of a first pass is timed), batches of up to 512 rows.

llama.cpp may rearrange weights for AMX or for interleaved kernels ("extra buffer types"), which makes it faster
where it works. Builds by gcc 12 die of an illegal instruction in AMX code (the compiler drops most of the tile
configuration), so another process tries first; version() says what came of it.
"""

import ctypes
import os
import subprocess
import sys

import llama_cpp as L
import numpy as np

SEQUENCE = 0
F16 = 1  # ggml's number of the type


def _print_faults(level, text, _user):
    if level in (3, 4):  # warning, error
        sys.stderr.write("llama.cpp: " + text.decode(errors="replace"))


_LOG = L.llama_log_callback(_print_faults)  # kept: the library holds the pointer


def _extra_buffers_work(path):
    """Whether a few passes with extra buffer types survive, tried in a process of its own."""
    trial = ("import sys; sys.path.insert(0, sys.argv[1]); import llama_peer; "
             "p = llama_peer.Peer(sys.argv[2], 512, extra_buffers=True); p.feed([1], True); p.feed([1] * 64, True)")
    here = os.path.dirname(os.path.abspath(__file__))
    return subprocess.run([sys.executable, "-c", trial, here, path], stderr=subprocess.DEVNULL).returncode == 0


def version(peer):
    """What is being compared with: package, library and the build's instruction sets, in two lines."""
    libraries = ctypes.CDLL(os.path.join(os.path.dirname(L.__file__), "lib", "libggml-base.so"))
    libraries.ggml_version.restype = libraries.ggml_commit.restype = ctypes.c_char_p
    return (f"llama-cpp-python {L.__version__}, ggml {libraries.ggml_version().decode()} "
            f"({libraries.ggml_commit().decode()}): {L.llama_print_system_info().decode().strip(' |')}\n"
            f"llama.cpp's extra buffer types (AMX, repacked weights): "
            f"{'on' if peer.extra_buffers else 'off, because this build crashes with them here'}")


class Peer:
    """A model and one empty context. Not thread-safe."""

    def __init__(self, path, context, threads=2, extra_buffers=None):
        """extra_buffers: None tries whether they work."""
        self.extra_buffers = _extra_buffers_work(path) if extra_buffers is None else extra_buffers
        L.llama_log_set(_LOG, None)
        L.llama_backend_init()
        settings = L.llama_model_default_params()
        settings.load_mode = L.LLAMA_LOAD_MODE_NONE
        settings.n_gpu_layers = 0
        settings.use_extra_bufts = self.extra_buffers
        self.model = L.llama_model_load_from_file(path.encode(), settings)
        if not self.model:
            sys.exit(f"{path}: llama.cpp cannot load it")
        self.vocabulary = L.llama_model_get_vocab(self.model)
        self.vocab = L.llama_vocab_n_tokens(self.vocabulary)
        settings = L.llama_context_default_params()
        settings.n_ctx = context
        settings.n_batch = settings.n_ubatch = 512
        settings.n_threads = settings.n_threads_batch = threads
        settings.flash_attn_type = L.LLAMA_FLASH_ATTN_TYPE_DISABLED
        settings.type_k = settings.type_v = F16
        self.context = L.llama_init_from_model(self.model, settings)
        if not self.context:
            sys.exit(f"{path}: llama.cpp cannot make a context of {context} tokens")
        self.memory = L.llama_get_memory(self.context)
        self.batch = L.llama_batch_init(512, 0, 1)
        self.length = 0  # tokens in the context

    def tokenize(self, text):
        """Ids of a text (bytes): begin-of-text only if the model asks for it, no control tokens recognised."""
        ids = (ctypes.c_int32 * (len(text) + 8))()
        n = L.llama_tokenize(self.vocabulary, text, len(text), ids, len(ids), True, False)
        if n < 0:
            sys.exit("llama.cpp: a text gave more tokens than bytes")
        return list(ids[:n])

    def clear(self):
        L.llama_memory_clear(self.memory, False)
        self.length = 0

    def cut(self, length):
        """Forgets all but the first `length` tokens."""
        L.llama_memory_seq_rm(self.memory, SEQUENCE, length, -1)
        self.length = length

    def feed(self, ids, every_row):
        """Appends up to 512 ids in one pass, with logits of every row or of the last one only."""
        b = self.batch
        b.n_tokens = len(ids)
        for i, token in enumerate(ids):
            b.token[i] = token
            b.pos[i] = self.length + i
            b.n_seq_id[i] = 1
            b.seq_id[i][0] = SEQUENCE
            b.logits[i] = every_row or i == len(ids) - 1
        status = L.llama_decode(self.context, b)
        if status != 0:
            sys.exit(f"llama.cpp: decoding {len(ids)} rows at {self.length} failed with {status}")
        self.length += len(ids)

    def logits(self, row=-1):
        """Logits of a row of the last pass, [vocab] f32: a view that the next pass overwrites."""
        return np.ctypeslib.as_array(L.llama_get_logits_ith(self.context, row), (self.vocab,))
