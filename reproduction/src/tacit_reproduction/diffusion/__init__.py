"""004 ch. 4: decentralised learning under noise that knows the graph, on regression data and on ijcnn1."""

from tacit_reproduction.diffusion.ijcnn1 import IJCNN1
from tacit_reproduction.diffusion.regression import REGRESSION

__all__ = ["IJCNN1", "REGRESSION"]
