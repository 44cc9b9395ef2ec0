"""Networks by name: each takes a sample's shape and the number of classes, and gives logits and features."""
