package peering

import (
	"fmt"
	"strings"
	"time"
)

// formatTimestamp returns kopf's form of a time: UTC with an offset, and microseconds unless they are zero.
func formatTimestamp(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05+00:00")
	}
	return t.Format("2006-01-02T15:04:05.000000+00:00")
}

// timestampLayouts are the accepted forms of times. Go also accepts fractions of a second of any length, and Z for "Z07:00".
var timestampLayouts = []string{
	"2006-01-02T15:04:05Z07:00",
	"2006-01-02T15:04:05Z0700",
	"2006-01-02T15:04:05Z07",
	"2006-01-02T15:04:05", // a time in UTC without an offset
	"2006-01-02T15:04Z07:00",
	"2006-01-02T15:04",
	"2006-01-02",
}

// parseTimestamp parses all forms that kopf accepts.
func parseTimestamp(text string) (time.Time, error) {
	normal := strings.Replace(strings.TrimSpace(text), " ", "T", 1)
	for _, layout := range timestampLayouts {
		if t, err := time.Parse(layout, normal); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("%.40q is not a time such as %s", text, "2020-12-31T23:59:59.123456+00:00")
}
