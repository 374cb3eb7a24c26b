"""Make the part of Fashion-MNIST that the package carries from the full set.

Takes the first 200 training and the first 50 test pictures of each class, in their order in the full set, and
writes them as gzipped IDX files. The same full set always gives the same bytes.

    python examples/make_fashion_mnist_subset.py [FOLDER WITH THE FOUR .gz FILES] [FOLDER TO WRITE TO]
"""

from __future__ import annotations

import gzip
import struct
import sys
from pathlib import Path

SOURCE = "/usr/share/datasets/fashion-mnist"
TARGET = Path(__file__).parent.parent / "python/rgrad/vision/datasets/fashion_mnist_subset"
PER_CLASS = {"train": 200, "t10k": 50}
PICTURE = 28 * 28


def main(source: Path, target: Path) -> None:
    """Write the four files of the subset."""
    for part, per_class in PER_CLASS.items():
        images = gzip.decompress((source / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
        labels = gzip.decompress((source / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
        left = [per_class] * 10
        chosen = []
        for index, label in enumerate(labels):
            if left[label] > 0:
                left[label] -= 1
                chosen.append(index)
        pictures = b"".join(images[index * PICTURE : (index + 1) * PICTURE] for index in chosen)
        classes = bytes(labels[index] for index in chosen)
        files = {
            f"{part}-images-idx3-ubyte.gz": struct.pack(">4I", 0x0803, len(chosen), 28, 28) + pictures,
            f"{part}-labels-idx1-ubyte.gz": struct.pack(">2I", 0x0801, len(chosen)) + classes,
        }
        for name, data in files.items():
            (target / name).write_bytes(gzip.compress(data, compresslevel=9, mtime=0))
        print(f"{part}: {len(chosen)} pictures")


if __name__ == "__main__":
    main(
        Path(sys.argv[1] if len(sys.argv) > 1 else SOURCE), Path(sys.argv[2]) if len(sys.argv) > 2 else TARGET
    )
