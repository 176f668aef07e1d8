package logs

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/internal/validation"
)

// For random logs, a stream that starts again after any line skips exactly the handled lines, also with a position that was stored.
func TestPosition_SkipsExactlyTheHandledLines(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var times []time.Time
		now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 40 {
			now = now.Add([]time.Duration{0, 0, time.Microsecond, 300 * time.Millisecond, 2 * time.Second}[random.IntN(5)])
			times = append(times, now)
		}
		for range 5 { // the runtime swaps some lines
			i := random.IntN(len(times) - 1)
			if times[i+1].Sub(times[i]).Abs() < time.Second {
				times[i], times[i+1] = times[i+1], times[i]
			}
		}
		var p position
		for handled := range len(times) {
			text, err := json.Marshal(&p)
			if err != nil {
				t.Fatal(err)
			}
			var stored position
			if err := json.Unmarshal(text, &stored); err != nil {
				t.Fatal(err)
			}
			s := skipper{position: stored}
			for i, at := range times {
				if at.Before(p.since().Truncate(time.Second)) {
					if i >= handled {
						t.Fatalf("line %d of %v is not requested after %d handled lines: %s", i, times, handled, text)
					}
					continue
				}
				if skip := s.skip(at); skip != (i < handled) {
					t.Fatalf("line %d of %v is skipped: %t, after %d handled lines: %s", i, times, skip, handled, text)
				}
			}
			p.add(times[handled])
			if len(p.Recent) > maxRecent {
				t.Fatalf("%d recent timestamps, want at most %d", len(p.Recent), maxRecent)
			}
		}
	}
}

// After the clock of the node was set back, lines must not be lost.
func TestPosition_FollowsAClockThatWasSetBack(t *testing.T) {
	var p position
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 20 {
		p.add(now.Add(time.Duration(i) * time.Second))
	}
	earlier := now.Add(-time.Hour)
	p.add(earlier)
	if s := (&skipper{position: p.clone()}); !s.skip(earlier) || s.skip(earlier.Add(time.Nanosecond)) || p.since().After(earlier) {
		t.Errorf("position %+v, want one at %s", p, earlier)
	}
}

// A pod can write any bookmark if its service account may change pods.
func TestParseBookmark_ForgedPositions(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(ahead time.Duration) string { return now.Add(ahead).Format(time.RFC3339Nano) }
	recent := func(times ...string) string {
		return `{"app":{"recent":[{"lines":1,"time":"` + strings.Join(times, `"},{"lines":1,"time":"`) + `"}]}}`
	}
	for name, test := range map[string]struct{ bookmark, err string }{
		"none":                     {"", ""},
		"a position":               {recent(at(-time.Minute), at(0)), ""},
		"a clock that is ahead":    {recent(at(time.Hour)), ""},
		"no position":              {`{"app":null}`, ""},
		"a time in the future":     {recent(at(0), at(time.Hour+1)), "more than 1h0m0s in the future"},
		"a floor in the future":    {`{"app":{"floor":"2999-01-01T00:00:00Z"}}`, "more than 1h0m0s in the future"},
		"a later floor":            {`{"app":{"floor":"2999-01-01T00:00:00Z","recent":[{"lines":1,"time":"` + at(0) + `"}]}}`, "more than 1h0m0s in the future"},
		"unsorted":                 {recent(at(0), at(-1)), "wrong order"},
		"more times than expected": {recent(slices.Repeat([]string{at(0)}, maxRecent+1)...), "more than 8"},
		"no JSON":                  {"{", "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			stored, err := parseBookmark(test.bookmark, now)
			if (err == nil) != (test.err == "") || err != nil && (!strings.Contains(err.Error(), test.err) || stored != nil) {
				t.Errorf("got %v, %v, want the error %q", stored, err, test.err)
			}
		})
	}
}

func TestAnnotationKey_IsValidAndUnique(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"oom", "oom.", "a/b", "a-b", "a_b", "a b", "ä", strings.Repeat("x", 58), strings.Repeat("x", 59), strings.Repeat("x", 500), strings.Repeat("x", 501), "UPPER"} {
		key := annotationKey(id)
		if err := validation.QualifiedName(key); err != nil {
			t.Errorf("key %q of id %q: %v", key, id, err)
		}
		if other, found := seen[key]; found {
			t.Errorf("the ids %q and %q have the same key %q, want different keys", id, other, key)
		}
		seen[key] = id
	}
	if got := annotationKey("oom"); got != "kopf-runtime.dev/logs.oom" {
		t.Errorf("got the key %q, want kopf-runtime.dev/logs.oom", got)
	}
}

// The reader must find the same lines as a split of the whole text, in bounded memory.
func FuzzReader(f *testing.F) {
	f.Add([]byte("2026-01-01T00:00:00Z a\n2026-01-01T00:00:00.5Z \n\nx"), uint32(10))
	f.Add([]byte("2026-01-01T00:00:00+01:00 b\n"), uint32(MaxText))
	f.Fuzz(func(t *testing.T, text []byte, padding uint32) {
		text = append(text, bytes.Repeat([]byte("y"), int(padding)%(3*MaxText))...)
		text = append(text, "\nlast"...)
		reader := newLineReader(bytes.NewReader(text))
		for i, want := range bytes.Split(text, []byte("\n")) {
			line, truncated, err := reader.next()
			if want := want[:min(len(want), maxTime+MaxText+1)]; !bytes.Equal(line, want[:min(len(want), len(line))]) || !truncated && len(line) != len(want) {
				t.Fatalf("line %d has %d bytes, truncated %t, want %d bytes", i, len(line), truncated, len(want))
			}
			if isLast := string(want) == "last" && err != nil; !isLast && err != nil {
				t.Fatalf("line %d: %v", i, err)
			}
			if parsed, ok := parse(line, truncated); ok && len(parsed.Text) > MaxText {
				t.Fatalf("got a text of %d bytes, want at most %d", len(parsed.Text), MaxText)
			}
		}
	})
}
