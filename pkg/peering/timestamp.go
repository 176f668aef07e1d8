package peering

import (
	"fmt"
	"strings"
	"time"
)

// timestamp is the form of kopf: UTC with an offset, and microseconds unless they are zero. [wire]
func timestamp(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// Go's parser takes fractions of any length where a layout has seconds. "Z07:00" takes a Z, too.
var layouts = []string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05", // without an offset, it is UTC
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02",
}

// parseTimestamp reads the forms that kopf reads.
func parseTimestamp(text string) (time.Time, error) {
	normal := strings.Replace(strings.TrimSpace(text), " ", "T", 1)
	for _, layout := range layouts {
		if t, err := time.Parse(layout, normal); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is no time such as %s", text, "2020-12-31T23:59:59.123456+00:00")
}
