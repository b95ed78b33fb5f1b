"""tpud: `torch.compile(model, backend="tpu")`."""
