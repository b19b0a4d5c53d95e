"""The discriminant of long texts: what tells texts of one domain apart."""

import numpy as np

from lmk_integrations.training.domains import fit_domains


def unit(x):
    return (x / np.linalg.norm(x, axis=-1, keepdims=True)).astype(np.float32)


def planted(rng, axis, n_texts=40, n_chunks=40, dim=16):
    """Texts of one domain: all near `axis`, apart in axis 3 alone, their chunks noisy in 4 to 9."""
    chunks, owner = [], []
    for text in range(n_texts):
        center = np.zeros(dim)
        center[axis] = 1.0
        center[3] = rng.normal(0, 0.1)
        noise = np.zeros((n_chunks, dim))
        noise[:, 4:10] = rng.normal(0, 0.4, (n_chunks, 6))
        noise[:, 10:] = rng.normal(0, 0.02, (n_chunks, dim - 10))
        chunks.append(center + noise)
        owner += [text] * n_chunks
    return unit(np.concatenate(chunks)), np.array(owner)


def means_of(chunks, owner):
    return unit(np.stack([chunks[owner == t].mean(axis=0) for t in range(owner.max() + 1)]))


def test_the_direction_drops_what_all_share_and_what_varies_within():
    """The domain's axis and the noisy axes fade; the axis that tells texts apart stands out."""
    chunks, owner = planted(np.random.default_rng(0), axis=0)
    domains = fit_domains(chunks, owner, seed=0)
    texts = means_of(chunks, owner)
    found = domains.directions(texts)
    assert np.allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    clear = np.abs(texts[:, 3]) > 0.05
    assert (np.sign(found[clear, 3]) == np.sign(texts[clear, 3])).all()
    assert np.abs(found[clear, 3]).mean() > 0.8
    assert np.abs(texts[clear, 3]).mean() < 0.2


def test_each_text_is_seen_against_its_own_domain():
    """With two domains, the axis that tells them apart is not what tells their texts apart."""
    rng = np.random.default_rng(1)
    one, first = planted(rng, axis=0)
    two, second = planted(rng, axis=1)
    chunks, owner = np.concatenate([one, two]), np.concatenate([first, second + first.max() + 1])
    domains = fit_domains(chunks, owner, seed=0)
    assert len(domains.means) == 2
    found = domains.directions(means_of(chunks, owner))
    clear = np.abs(means_of(chunks, owner)[:, 3]) > 0.05
    assert np.abs(found[clear, 3]).mean() > 0.7


def test_few_texts_make_no_domain():
    """A discriminant of a handful of texts would be noise."""
    chunks, owner = planted(np.random.default_rng(0), axis=0, n_texts=8)
    assert fit_domains(chunks, owner, seed=0) is None
    assert fit_domains(chunks[:0], owner[:0], seed=0) is None


def test_the_same_sample_gives_the_same_domains():
    """A resumed training fits them again."""
    chunks, owner = planted(np.random.default_rng(0), axis=0)
    one, two = (fit_domains(chunks, owner, seed=3) for _ in range(2))
    assert np.array_equal(one.centers, two.centers)
    assert np.array_equal(one.maps, two.maps)
