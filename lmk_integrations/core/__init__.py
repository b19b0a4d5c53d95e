"""The pure part: token ids and NumPy arrays in, NumPy arrays out. No files, clock or logging.

landmarks.py   tokens -> chunks, one landmark and one character span each
sections.py    tokens -> sections (what the store holds)
windows.py     chunks -> windows (what the encoder reads at once)
pooling.py     landmark states -> vectors of texts, sections and passages
passages.py    landmark scores -> the best passage
batching.py    windows -> batches under a token budget
"""
