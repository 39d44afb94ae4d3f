"""Mirrors of a run's records: TensorBoard, MLflow, Weights & Biases; a run needs none of them."""
