"""How a wrong argument is refused: its name, its value, what is allowed. Always the same words."""


def wrong(argument: str, value: object, allowed: str) -> ValueError:
    return ValueError(f"{argument} is {value}; allowed: {allowed}")
