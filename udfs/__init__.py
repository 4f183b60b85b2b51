"""The kernels; from the root of a checkout they are found as ``udfs`` as well, and are the same modules."""

if __name__ == "udfs":
    from hindsight.same_modules import found_as

    found_as(__name__)
