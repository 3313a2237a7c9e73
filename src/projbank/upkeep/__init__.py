"""Codes in use: what a code lost, whether new data still fit the bank, and coding anew after a renewal."""
