package peering_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kopf-runtime/kopf-runtime/pkg/peering"
)

// longestDuration is the longest duration in whole seconds.
const longestDuration = time.Duration(math.MaxInt64 / 1_000_000_000 * 1_000_000_000)

var written = time.Date(2026, 11, 20, 15, 15, 4, 360514000, time.UTC)

// PEER-04, PEER-05, PEER-08, MIG-10, MIG-11: records are written in exactly kopf's format.
func TestRecord_Marshal(t *testing.T) {
	for want, record := range map[string]peering.Record{
		`{"priority":0,"lifetime":60,"lastseen":"2026-11-20T15:15:04.360514+00:00"}`: {Lifetime: time.Minute, LastSeen: written},
		// Microseconds have six digits, or none if they are zero. Smaller fractions are dropped.
		`{"priority":-5,"lifetime":1,"lastseen":"2026-11-20T15:15:04.000010+00:00"}`: {
			Priority: -5, Lifetime: time.Second, LastSeen: written.Truncate(time.Second).Add(10999 * time.Nanosecond),
		},
		`{"priority":666,"lifetime":3600,"lastseen":"2026-11-20T15:15:04+00:00"}`: {
			Priority: 666, Lifetime: time.Hour, LastSeen: written.Truncate(time.Second).Add(999 * time.Nanosecond),
		},
		// Times are in UTC.
		`{"priority":1,"lifetime":60,"lastseen":"2026-11-20T15:15:04.360514+00:00" }`: {
			Priority: 1, Lifetime: time.Minute, LastSeen: written.In(time.FixedZone("far", 5*3600)),
		},
		// Fields that kopf does not have come last, and empty ones are omitted.
		`{"priority":0,"lifetime":60,"lastseen":"2026-11-20T15:15:04.360514+00:00","candidate":"2026-11-20T15:15:04.360514+00:00","message":"why"}`: {
			Lifetime: time.Minute, LastSeen: written, Candidate: written, Message: "why",
		},
	} {
		got, err := json.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.ReplaceAll(want, " ", ""); string(got) != want {
			t.Errorf("encoded %+v =\n%s, want\n%s", record, got, want)
		}
	}
}

// PEER-06, MIG-11: all formats that kopf writes are accepted.
func TestRecord_Unmarshal(t *testing.T) {
	second := written.Truncate(time.Second)
	for text, want := range map[string]peering.Record{
		`{"priority":7,"lifetime":90,"lastseen":"2026-11-20T15:15:04.360514+00:00"}`: {Priority: 7, Lifetime: 90 * time.Second, LastSeen: written},
		// Missing fields have defaults. A missing lastseen is zero.
		`{}`:                {Lifetime: time.Minute},
		`{"lastseen":null}`: {Lifetime: time.Minute},
		`{"priority":3,"unknown":{"a":[1]},"version":"x"}`: {Priority: 3, Lifetime: time.Minute},
		// Times without an offset are UTC.
		`{"lastseen":"2026-11-20T15:15:04"}`:              {Lifetime: time.Minute, LastSeen: second},
		`{"lastseen":"2026-11-20 15:15:04.360514"}`:       {Lifetime: time.Minute, LastSeen: written},
		`{"lastseen":"2026-11-20T15:15:04Z"}`:             {Lifetime: time.Minute, LastSeen: second},
		`{"lastseen":"2026-11-20T15:15:04+00:00"}`:        {Lifetime: time.Minute, LastSeen: second},
		`{"lastseen":"2026-11-20T18:15:04.360514+03:00"}`: {Lifetime: time.Minute, LastSeen: written},
		`{"lastseen":"2026-11-20T18:15:04.360514+0300"}`:  {Lifetime: time.Minute, LastSeen: written},
		// Numbers have several formats and are limited to the range of the field.
		`{"lifetime":"90","priority":"-4"}`:    {Priority: -4, Lifetime: 90 * time.Second},
		`{"lifetime":" 90 "}`:                  {Lifetime: 90 * time.Second},
		`{"lifetime":90.9,"priority":1.5}`:     {Priority: 1, Lifetime: 90 * time.Second},
		`{"lifetime":-1.5,"priority":-1.5}`:    {Priority: -2, Lifetime: -time.Second},
		`{"lifetime":6e1,"priority":1e3}`:      {Priority: 1000, Lifetime: time.Minute},
		`{"lifetime":1e999,"priority":-1e999}`: {Priority: math.MinInt64, Lifetime: longestDuration},
		`{"priority":99999999999999999999,"lifetime":-99999999999999999999}`: {
			Priority: math.MaxInt64, Lifetime: -longestDuration,
		},
		// Invalid values of fields that kopf does not have are ignored.
		`{"candidate":5,"message":{"a":1}}`: {Lifetime: time.Minute},
	} {
		var got peering.Record
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("decoding %s failed: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", text, diff)
		}
	}
}

// An error names the invalid field and leaves the target unchanged.
func TestRecord_UnmarshalErrors(t *testing.T) {
	for text, key := range map[string]string{
		`null`: "must be an object", `"text"`: "must be an object", `[1]`: "must be an object", `7`: "must be an object", `true`: "must be an object",
		`{"priority":null}`: "priority", `{"priority":"high"}`: "priority", `{"priority":{}}`: "priority",
		`{"priority":true}`: "priority", `{"priority":"1.5"}`: "priority", `{"priority":""}`: "priority",
		`{"priority":"inf"}`: "priority", `{"priority":"1_000"}`: "priority",
		`{"lifetime":null}`: "lifetime", `{"lifetime":"long"}`: "lifetime", `{"lifetime":[60]}`: "lifetime",
		`{"lastseen":"yesterday"}`: "lastseen", `{"lastseen":1605885304}`: "lastseen", `{"lastseen":""}`: "lastseen",
		`{"lastseen":"2026-13-20T15:15:04"}`: "lastseen",
	} {
		got := peering.Record{Priority: 42}
		err := json.Unmarshal([]byte(text), &got)
		if err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: error = %v, want an error about %s", text, err, key)
		}
		if got != (peering.Record{Priority: 42}) {
			t.Errorf("%s: target after the error = %+v, want no change", text, got)
		}
	}
}

// PEER-07: a record expires exactly at the end of its lifetime.
func TestRecord_Expired(t *testing.T) {
	record := peering.Record{Lifetime: time.Minute, LastSeen: written}
	for after, want := range map[time.Duration]bool{
		-time.Hour: false, 0: false, time.Minute - 1: false, time.Minute: true, time.Minute + 1: true,
	} {
		if got := record.Expired(written.Add(after)); got != want {
			t.Errorf("expired after %s = %t, want %t", after, got, want)
		}
	}
	if (peering.Record{Lifetime: time.Minute}).Expired(written) {
		t.Error("PEER-06: a record without lastseen must not be expired")
	}
	for _, lifetime := range []time.Duration{0, -time.Minute} {
		if !(peering.Record{Lifetime: lifetime, LastSeen: written}).Expired(written) {
			t.Errorf("a lifetime of %s must expire immediately", lifetime)
		}
	}
}

// FuzzRecords checks that any status can be read, and that readable records can be written and read again.
func FuzzRecords(f *testing.F) {
	for _, seed := range []string{
		`{"priority":0,"lifetime":60,"lastseen":"2026-11-20T15:15:04.360514+00:00"}`, `{}`, `null`, `[]`, `"x"`,
		`{"priority":1e999,"lifetime":-1e999}`, `{"lifetime":"9223372036854775807"}`, `{"lastseen":"0000-01-01"}`,
		`{"priority":"-0","candidate":"9999-12-31T23:59:59.999999999-23:59","message":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var value any
		if json.Unmarshal(raw, &value) != nil {
			return // the API server accepts only JSON
		}
		now := time.Now()
		var sightings peering.Observations
		// The value is used as a record, as the status, and next to a valid record.
		sightings.Observe(value, now)
		good := map[string]any{"lifetime": int64(60), "priority": int64(1)}
		peers, unreadable := sightings.Observe(map[string]any{"good": good, "fuzz": value}, now)
		if len(peers)+len(unreadable) != 2 || !peers[len(peers)-1].Since.Equal(now) {
			t.Fatalf("peers for %s = %v, unreadable = %v, want 2 in total", raw, peers, unreadable)
		}
		verdict := peering.Self{Identity: "self"}.Decide(peers, now)
		if !verdict.Paused {
			t.Fatalf("decision for %s = %+v, want one that includes the valid record", raw, verdict)
		}
		for _, p := range peers {
			if p.Identity != "fuzz" || p.LastSeen.Year() < 1 || p.LastSeen.Year() > 9998 || p.Candidate.Year() < 1 || p.Candidate.Year() > 9998 {
				continue
			}
			again, err := json.Marshal(p.Record)
			if err != nil {
				t.Fatal(err)
			}
			var read peering.Record
			if err := json.Unmarshal(again, &read); err != nil {
				t.Fatalf("%s was encoded as %s, which cannot be decoded: %v", raw, again, err)
			}
			if read.Priority != p.Priority || read.Lifetime != p.Lifetime || !read.LastSeen.Equal(p.LastSeen.Truncate(time.Microsecond)) {
				t.Fatalf("%s was encoded as %s, and decoded as %+v, want the same record", raw, again, read)
			}
		}
	})
}
