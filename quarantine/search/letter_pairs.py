"""Pairs of ASCII letters that some language has often.

A pair is common where it makes up a thousandth or more of the pairs of some language, out of 36
languages and kinds of text with 20,000 pairs or more among the clean documents of half A of the
labelled corpus. Letters drawn at random make a third of their pairs of others.
"""

COMMON_PAIRS: dict[str, str] = {
    "a": "abcdfghijklmnopqrstuvwyz",
    "b": "abeijlorsuy",
    "c": "acdehijkloprstuyz",
    "d": "abdefijklnoprstuyz",
    "e": "abcdefghijklmnopqrstuvwxyz",
    "f": "aefilorstu",
    "g": "aeghijklmnoprstuy",
    "h": "adeijklnoprstuvy",
    "i": "abcdefghijklmnopqrstuvwxyz",
    "j": "adeiklmnostu",
    "k": "aehijklnorstuy",
    "l": "acdefghijklmnopstuvyz",
    "m": "abdegijlmnopsuy",
    "n": "acdefghijklmnopstuvyz",
    "o": "abcdefghijklmnoprstuvwxz",
    "p": "acdehilnoprstuy",
    "q": "u",
    "r": "abcdeghijklmnopqrstuvwyz",
    "s": "acdeghijklmnopqstuvwyz",
    "t": "abcdeghijklmnoprstuvwxyz",
    "u": "abcdefgijklmnoprstuvwxyz",
    "v": "aeilnoprsuy",
    "w": "aehinorswy",
    "x": "acefhioptu",
    "y": "abcefghijklmnoprstvwy",
    "z": "abdeghimnoprstuvwyz",
}
