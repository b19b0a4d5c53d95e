"""Text at the edge: how bytes become text, what is mended, where units begin."""
