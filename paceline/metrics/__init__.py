"""What is counted, in the words of docs/architecture.md, for people and for Prometheus."""

from paceline.metrics.record import speculation_record

__all__ = ["speculation_record"]
