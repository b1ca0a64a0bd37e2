package intervals

import "sort"

// Interval is a half-open range of minutes, [Start, End).
type Interval struct {
	Start, End int
}

// Merge joins overlapping or touching intervals and returns them in order.
func Merge(spans []Interval) []Interval {
	sort.Slice(spans, func(i, j int) bool { return spans[i].Start < spans[j].Start })
	var merged []Interval
	for _, span := range spans {
		if n := len(merged); n > 0 && span.Start <= merged[n-1].End {
			if span.End > merged[n-1].End {
				merged[n-1].End = span.End
			}
			continue
		}
		merged = append(merged, span)
	}
	return merged
}
