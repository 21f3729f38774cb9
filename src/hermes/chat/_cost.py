"""What a conversation has used of a model, and about what that costs."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic_ai.messages import ModelResponse

__all__ = ["Cost"]


@dataclass
class Cost:
    """Sums over the answers of one conversation. ``price`` is in US dollars, of those with a known price."""

    answers: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    price: float = 0.0
    unpriced: int = 0

    def add(self, response: ModelResponse) -> None:
        """Count one answer."""
        self.answers += 1
        self.input_tokens += response.usage.input_tokens
        self.output_tokens += response.usage.output_tokens
        try:
            self.price += float(response.cost().total_price)
        except (LookupError, ValueError, AssertionError):
            self.unpriced += 1

    def text(self) -> str:
        """Return it in words."""
        said = f"{self.answers} answers, {self.input_tokens} tokens in, {self.output_tokens} out"
        if self.unpriced == self.answers:
            return said + "; there is no price for this model"
        also = f", without {self.unpriced} answers that have none" if self.unpriced else ""
        return f"{said}; about {self.price:.4f} USD at list prices{also}"
