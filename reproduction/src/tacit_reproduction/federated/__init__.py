"""Federated learning with sampled clients, private messages and graphs of servers (Rizk 2023, ch. 2 and 3)."""

from tacit_reproduction.federated.graph import REGRESSION as GRAPH_REGRESSION
from tacit_reproduction.federated.graph_classification import CLASSIFICATION as GRAPH_CLASSIFICATION
from tacit_reproduction.federated.importance import REGRESSION as IMPORTANCE_REGRESSION
from tacit_reproduction.federated.importance_ijcnn1 import IJCNN1 as IMPORTANCE_IJCNN1
from tacit_reproduction.federated.private import PRIVATE

__all__ = ["GRAPH_CLASSIFICATION", "GRAPH_REGRESSION", "IMPORTANCE_IJCNN1", "IMPORTANCE_REGRESSION", "PRIVATE"]
