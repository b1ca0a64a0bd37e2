"""Documents and vectors in LanceDB: upsert, search, word search, hybrid, maintenance."""

from .filters import compile_filter
from .fusion import Found, fuse
from .info import StoreInfo
from .policy import IndexPolicy
from .provenance import SourceState, StoredPart
from .rows import Row, check_document, check_vector, content_hash
from .store import Store
from .tags import clean

__all__ = [
    "Found",
    "IndexPolicy",
    "Row",
    "SourceState",
    "Store",
    "StoreInfo",
    "StoredPart",
    "check_document",
    "check_vector",
    "clean",
    "compile_filter",
    "content_hash",
    "fuse",
]
