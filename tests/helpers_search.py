"""Corpora and texts that the search tests share."""

# ruff: noqa: RUF001, SIM905 (texts in many scripts; a list of words as words)

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from helpers_pool import die

from shardward.loader.index import build_manifest
from shardward.loader.manifest import Manifest
from shardward.quarantine.search.columns import TextChunk, chunk_of
from shardward.quarantine.search.index_job import ShardIndexed, index_shard
from shardward.quarantine.search.query import Query
from shardward.quarantine.search.similar import ShardHits, scan_shard

SCRIPTS = (
    "The quick brown fox jumps over the lazy dog, again and again.",
    "Съешь ещё этих мягких французских булок, да выпей же чаю.",
    "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία, λέει ο Ποιητής.",
    "天地玄黄，宇宙洪荒。日月盈昃，辰宿列张。",
    "いろはにほへと ちりぬるを わかよたれそ",
    "ราชอาณาจักรไทยเป็นรัฐเอกราชในเอเชีย",
    "ພາສາລາວເປັນພາສາທາງການ",
    "ភាសាខ្មែរគឺជាភាសាផ្លូវការ",
    "မြန်မာဘာသာစကားသည် တရားဝင်",
    "키스의 고유조건은 입술끼리 만나야 하고",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "Tiếng Việt được viết bằng chữ Quốc ngữ với dấu thanh.",
    "İstanbul'da ığdır ve şişe; Straße, ÆØÅ, naïve café.",
    "ქართული ენა არის საქართველოს სახელმწიფო ენა",
)
WORDS = (
    "river stone winter light carry under window paper green market simple number question "
    "letter morning garden silver travel answer bridge corner doctor engine family ground "
    "history island journey kitchen language machine nature office people quiet reason school "
    "theory useful value water yellow summer orange planet record signal thread valley weather "
    "balance century "
).split()


def prose(rng: random.Random, words: int) -> str:
    """Return random sentences that repeat nothing on purpose."""
    return " ".join(f"{rng.choice(WORDS)}{rng.choice(('', 's', 'ed', '.'))}" for _ in range(words))


def edited(rng: random.Random, text: str, share: float) -> str:
    """Return `text` with a share of its words replaced."""
    words = text.split(" ")
    for place in rng.sample(range(len(words)), max(1, int(share * len(words)))):
        words[place] = f"edit{rng.randrange(10**6)}"
    return " ".join(words)


def chunk(*texts: str) -> TextChunk:
    """Return the texts as one chunk."""
    return chunk_of([text.encode("utf-8", "surrogatepass") for text in texts])


def corpus(path: Path, texts: Sequence[str], *, shards: int = 2, rows: int = 64) -> Manifest:
    """Write `texts` as Parquet shards under `path` and index them, in order."""
    path.mkdir(parents=True, exist_ok=True)
    size = -(-len(texts) // shards)
    for shard in range(shards):
        part = texts[shard * size : (shard + 1) * size]
        table = pa.table({"text": pa.array(part, pa.string()), "source": ["test"] * len(part)})
        pq.write_table(table, path / f"part-{shard:03}.parquet", row_group_size=rows)
    return build_manifest([str(path / "*.parquet")], path / "manifest", source_column="source")


class Loud:
    """A detector that an entry point names."""

    name, version, family = "loud", 1, "style"

    def examine(self, text: str, source: str) -> None:
        """Have no opinion."""


def search_all_but_second(shard: int, broadcast: tuple[Manifest, Query]) -> ShardHits:
    """Search a shard, and end the process at shard 1."""
    return die() if shard == 1 else scan_shard(shard, broadcast)


def index_all_but_second(shard: int, manifest: Manifest) -> ShardIndexed:
    """Index a shard, and end the process at shard 1."""
    return die() if shard == 1 else index_shard(shard, manifest)
