"""A long text as one vector, and as landmark vectors with exact character offsets."""

from pathlib import Path

import numpy as np

from lmk_integrations import LMKEncoder

story = (Path(__file__).parent / "corpus" / "war-of-the-worlds.txt").read_text(encoding="utf-8")
encoder = LMKEncoder()
print(encoder)

[encoding] = encoder.encode_landmarks([story])
print(f"{len(story):,} characters, {encoding.n_tokens:,} tokens, {encoding.n_windows} windows")
print("the text's vector:", encoding.vector.shape)
print("its landmarks:    ", encoding.landmarks.shape)

# The spans tile the text from its first to its last token: nothing is truncated.
pieces = [story[start:end] for start, end in encoding.spans]
print("spans tile it:    ", "".join(pieces) == story.strip())

# Every landmark is a vector of its own stretch, read in its context.
[query] = encoder.encode_queries(["What did the fighting machines look like?"])
units = encoding.landmarks / np.linalg.norm(encoding.landmarks, axis=1, keepdims=True)
scores = units @ query
best = int(np.argmax(scores))
start, end = encoding.spans[best]
print(f"closest landmark:  {best} of {len(scores)}, characters {start}-{end}")
print("   ", " ".join(story[start:end].split()))
