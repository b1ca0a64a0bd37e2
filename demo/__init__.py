"""A page to show others: search, routing, composed queries, tools, experts (extra ``demo``)."""
