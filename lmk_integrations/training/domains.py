"""What tells a long text from others of its kind: the discriminant direction of its domain.

The mean of a story's chunks says above all that it is a story. What tells stories apart is how a
text's mean differs from the mean of its domain, in the directions in which the chunks of one text
vary little (Fisher's linear discriminant). Measured on FairytaleQA with the base's own vectors
and a discriminant learned from other books, question -> story nDCG@10: mean over windows 66.2;
with 0.4 of the discriminant's direction added 69.4.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmk_integrations.core.pooling import l2_normalize

Floats = NDArray[np.float32]
Ints = NDArray[np.int64]

_RIDGE = 0.3  # of the mean variance, added to every direction
_PRIOR_CHUNKS = 1000  # how many chunks of all domains a domain's variance counts beside its own
_TEXTS_PER_DOMAIN = 30
_MOST_DOMAINS = 8


@dataclass(frozen=True, slots=True)
class Domains:
    """centers: (k, dim) unit; means: (k, dim); maps: (k, dim, dim), a ridged inverse variance."""

    centers: Floats
    means: Floats
    maps: Floats

    def directions(self, texts: Floats) -> Floats:
        """Unit discriminant directions of unit text means (n, dim), each in its nearest domain."""
        nearest = (texts @ self.centers.T).argmax(axis=1)
        apart = texts - self.means[nearest]
        return l2_normalize(np.einsum("nij,nj->ni", self.maps[nearest], apart).astype(np.float32))


def fit_domains(chunks: Floats, owner: Ints, seed: int) -> Domains | None:
    """Domains of a sample of texts; None where there are too few to tell.

    chunks: (n_chunks, dim) unit vectors; owner: (n_chunks,) the text of each, from 0 on.
    """
    from scipy.cluster.vq import kmeans2

    n_texts = int(owner.max()) + 1 if len(owner) else 0
    if n_texts < _TEXTS_PER_DOMAIN:
        return None
    sums = np.zeros((n_texts, chunks.shape[1]))
    np.add.at(sums, owner, chunks)
    own_mean = sums / np.bincount(owner, minlength=n_texts)[:, None]
    residuals = chunks - own_mean[owner]
    texts = l2_normalize(own_mean.astype(np.float32))
    k = min(_MOST_DOMAINS, n_texts // _TEXTS_PER_DOMAIN)
    centers, label = kmeans2(texts.astype(np.float64), k, minit="++", seed=seed)
    everywhere = residuals.T @ residuals / len(residuals)
    means, maps = [], []
    for domain in range(k):
        members = label == domain
        of_domain = residuals[members[owner]]
        spread = of_domain.T @ of_domain + _PRIOR_CHUNKS * everywhere
        spread = spread / (len(of_domain) + _PRIOR_CHUNKS)
        ridge = _RIDGE * np.trace(spread) / len(spread)
        maps.append(np.linalg.inv(spread + ridge * np.eye(len(spread))))
        means.append(texts[members].mean(axis=0) if members.any() else texts.mean(axis=0))
    return Domains(
        l2_normalize(centers.astype(np.float32)),
        np.stack(means).astype(np.float32),
        np.stack(maps).astype(np.float32),
    )
