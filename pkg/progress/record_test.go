package progress_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

func TestRecord_MarshalJSON(t *testing.T) {
	for _, test := range []struct {
		name   string
		record progress.Record
		want   string
	}{
		{
			name: "PROG-02 nulls are omitted, zero counts and false are not",
			want: `{"retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 PROG-12 a new record",
			record: progress.Record{Started: t0, Purpose: "create"},
			want:   `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":0,"success":false,"failure":false}`,
		},
		{
			name: "PROG-02 a finished record",
			record: progress.Record{
				Started: t0, Stopped: t0.Add(76544 * time.Microsecond), Purpose: "create", Retries: 1, Success: true,
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.200000+00:00",` +
				`"purpose":"create","retries":1,"success":true,"failure":false}`,
		},
		{
			name: "PROG-02 a delayed record",
			record: progress.Record{
				Started: t0, Delayed: t0.Add(time.Minute), Purpose: "create", Retries: 3, Message: "Not ready yet.",
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","delayed":"2021-01-01T00:00:59.123456+00:00",` +
				`"purpose":"create","retries":3,"success":false,"failure":false,"message":"Not ready yet."}`,
		},
		{
			name: "PROG-02 all fields in order",
			record: progress.Record{
				Started: t0, Stopped: t0, Delayed: t0, Purpose: "resume", Retries: 2, Failure: true, Message: "m", Subrefs: []string{"p/a"},
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.123456+00:00",` +
				`"delayed":"2020-12-31T23:59:59.123456+00:00","purpose":"resume","retries":2,"success":false,"failure":true,"message":"m","subrefs":["p/a"]}`,
		},
		{
			name:   "DLY-14 the end of the last attempt, after the fields of kopf",
			record: progress.Record{Delayed: t0, Attempted: t0, Retries: 1, Message: "m"},
			want: `{"delayed":"2020-12-31T23:59:59.123456+00:00","retries":1,"success":false,"failure":false,"message":"m",` +
				`"attempted":"2020-12-31T23:59:59.123456+00:00"}`,
		},
		{
			name:   "SUB-12 sub-handlers are sorted and unique",
			record: progress.Record{Subrefs: []string{"p/b", "p/a", "p/b"}},
			want:   `{"retries":0,"success":false,"failure":false,"subrefs":["p/a","p/b"]}`,
		},
		{
			name:   "PROG-03 six digits for a whole second",
			record: progress.Record{Started: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)},
			want:   `{"started":"2021-01-01T00:00:00.000000+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 six digits for nanoseconds",
			record: progress.Record{Started: time.Date(2021, 1, 1, 0, 0, 0, 999, time.UTC)},
			want:   `{"started":"2021-01-01T00:00:00.000000+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 times are in UTC",
			record: progress.Record{Started: t0.In(time.FixedZone("", 5*3600+1800))},
			want:   `{"started":"2020-12-31T23:59:59.123456+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-02 ASCII without escaped HTML characters",
			record: progress.Record{Message: "ё<&>\U0001F600\n\"\u2028"},
			want:   `{"retries":0,"success":false,"failure":false,"message":"\u0451<&>\ud83d\ude00\n\"\u2028"}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			text, err := test.record.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			equal(t, "text", string(text), test.want)
		})
	}
}

func TestRecord_UnmarshalJSON(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       progress.Record
	}{
		{
			name: "PROG-30 a record of kopf",
			text: `{"started":"2020-12-31T23:59:59.123456+00:00","delayed":"2021-01-01T00:00:59.123456+00:00",` +
				`"purpose":"create","retries":3,"success":false,"failure":false,"message":"Not ready yet.","subrefs":["p/a"]}`,
			want: progress.Record{
				Started: t0, Delayed: t0.Add(time.Minute), Purpose: "create", Retries: 3, Message: "Not ready yet.", Subrefs: []string{"p/a"},
			},
		},
		{
			name: "PROG-02 PROG-07 nulls",
			text: `{"started":null,"stopped":null,"delayed":null,"purpose":null,"retries":null,"success":null,"failure":null,"message":null,"subrefs":null}`,
		},
		{
			name: "DLY-14 an invalid time of the last attempt is ignored",
			text: `{"delayed":"2020-12-31T23:59:59.123456+00:00","attempted":"yesterday"}`, want: progress.Record{Delayed: t0},
		},
		{
			name: "DLY-14 the time of the last attempt",
			text: `{"delayed":"2020-12-31T23:59:59.123456+00:00","attempted":"2020-12-31T23:59:59.123456Z"}`, want: progress.Record{Delayed: t0, Attempted: t0},
		},
		{name: "DLY-14 the time of the last attempt without a delay", text: `{"retries":1,"attempted":"2020-12-31T23:59:59.123456Z"}`, want: progress.Record{Retries: 1}},
		{name: "PROG-14 an empty object", text: `{}`},
		{name: "PROG-14 no retries", text: `{"success":true}`, want: progress.Record{Success: true}},
		{name: "PROG-25 no purpose", text: `{"retries":1,"failure":true}`, want: progress.Record{Retries: 1, Failure: true}},
		{name: "PROG-18 a waiting parent", text: `{"retries":1,"message":"None"}`, want: progress.Record{Retries: 1, Message: "None"}},
		{name: "MIG-07 unknown keys", text: `{"retries":1,"priority":{"a":[1]},"reason":"x"}`, want: progress.Record{Retries: 1}},
		{name: "MIG-07 unknown keys that differ in case", text: `{"retries":1,"Success":true,"FAILURE":"yes"}`, want: progress.Record{Retries: 1}},
		{name: "MIG-04 a count as a float", text: `{"retries":2.0}`, want: progress.Record{Retries: 2}},
		{name: "MIG-04 a large count", text: `{"retries":9007199254740992}`, want: progress.Record{Retries: 9007199254740992}},
		{name: "PROG-02 whitespace", text: " {\"retries\" : 1}\n", want: progress.Record{Retries: 1}},
		{name: "PROG-02 escaped text", text: `{"message":"\u0451\ud83d\ude00"}`, want: progress.Record{Message: "ё\U0001F600"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got progress.Record
			if err := json.Unmarshal([]byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			equal(t, "record", got, test.want)
		})
	}
}

func TestRecord_UnmarshalInvalidJSON(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"B-30 invalid JSON", `{"retries":`},
		{"B-30 not an object", `[1]`},
		{"B-30 trailing data", `{"retries":1} {}`},
		{"B-30 a string", `"retries"`},
		{"B-30 an invalid time", `{"started":"yesterday"}`},
		{"B-30 an empty time", `{"delayed":""}`},
		{"B-30 a number for a time", `{"stopped":1609459199}`},
		{"B-30 a string as a count", `{"retries":"3"}`},
		{"B-30 a count above the limit", `{"retries":1e300}`},
		{"B-30 a count without an exact JSON number", `{"retries":9007199254740994}`},
		{"B-30 a negative count", `{"retries":-1}`},
		{"B-30 a fractional count", `{"retries":1.5}`},
		{"B-30 a string as a boolean", `{"success":"yes"}`},
		{"B-30 a string as a list", `{"subrefs":"a"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := progress.Record{Retries: 7}
			if err := json.Unmarshal([]byte(test.text), &got); err == nil {
				t.Errorf("decoded record = %+v, want an error", got)
			}
			equal(t, "record after the error", got, progress.Record{Retries: 7})
		})
	}
}

func TestRecord_TimeFormats(t *testing.T) {
	second := t0.Truncate(time.Second)
	for _, test := range []struct {
		name, text string
		want       time.Time
	}{
		{"PROG-03 the written format", "2020-12-31T23:59:59.123456+00:00", t0},
		{"PROG-04 Z", "2020-12-31T23:59:59.123456Z", t0},
		{"PROG-04 no fraction", "2020-12-31T23:59:59+00:00", second},
		{"PROG-04 a short fraction", "2020-12-31T23:59:59.5Z", second.Add(time.Second / 2)},
		{"PROG-04 a comma", "2020-12-31T23:59:59,5Z", second.Add(time.Second / 2)},
		{"PROG-04 an offset", "2021-01-01T01:29:59.123456+01:30", t0},
		{"PROG-04 a negative offset", "2020-12-31T18:59:59.123456-05:00", t0},
		{"PROG-04 an offset without a colon", "2021-01-01T01:29:59.123456+0130", t0},
		{"PROG-04 an offset in hours", "2021-01-01T00:59:59.123456+01", t0},
		{"PROG-04 a space as separator", "2020-12-31 23:59:59.123456+00:00", t0},
		{"PROG-04 the basic form", "20201231T235959.123456Z", t0},
		{"PROG-04 without seconds", "2020-12-31T23:59+00:00", second.Truncate(time.Minute)},
		{"PROG-04 B-30 without an offset, UTC", "2020-12-31T23:59:59.123456", t0},
		{"PROG-04 B-30 without an offset, a space as separator", "2020-12-31 23:59:59.123456", t0},
		{"PROG-04 B-30 without an offset, basic form", "20201231T235959", second},
		{"PROG-04 the maximum time of Python", "9999-12-31T23:59:59.999999+00:00", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{"PROG-04 almost the minimum time of Python", "0001-01-01T00:00:01+00:00", time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
		{"PROG-04 only a date", "2020-12-31", time.Date(2020, 12, 31, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got progress.Record
			if err := json.Unmarshal([]byte(`{"delayed":"`+test.text+`"}`), &got); err != nil {
				t.Fatal(err)
			}
			equal(t, "time", got.Delayed, test.want)
			if got.Delayed.Location() != time.UTC {
				t.Errorf("time zone = %v, want UTC", got.Delayed.Location())
			}
		})
	}
}

// A decoded record must remain decodable after it is encoded.
func TestRecord_ExtremeTimes(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"PROG-03 the last second of year 9999", "9999-12-31T23:59:59Z"},
		{"PROG-03 the last second with an offset", "9999-12-31T23:59:59-01:00"},
		{"PROG-03 the first second with an offset", "0000-01-01T00:00:00+01:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var record, again progress.Record
			if err := json.Unmarshal([]byte(`{"started":"`+test.text+`"}`), &record); err != nil {
				return // rejected, which is also valid
			}
			text, err := record.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &again); err != nil {
				t.Errorf("decoding the encoded record %s failed: %v", text, err)
			}
		})
	}
}

func TestRecord_Due(t *testing.T) {
	for _, test := range []struct {
		name          string
		record        progress.Record
		due, finished bool
	}{
		{"PROG-15 a new record is due", progress.Record{Started: t0}, true, false},
		{"PROG-15 an empty record is due", progress.Record{}, true, false},
		{"PROG-15 a future delay: not due", progress.Record{Delayed: t0.Add(time.Microsecond)}, false, false},
		{"PROG-15 a delay that ends now: due", progress.Record{Delayed: t0}, true, false},
		{"PROG-15 an expired delay: due", progress.Record{Delayed: t0.Add(-time.Hour)}, true, false},
		{"PROG-15 succeeded: finished", progress.Record{Success: true}, false, true},
		{"PROG-15 PROG-27 failed permanently: finished", progress.Record{Failure: true}, false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			equal(t, "due", test.record.Due(t0), test.due)
			equal(t, "finished", test.record.Finished(), test.finished)
		})
	}
}

func TestRecord_Attempt(t *testing.T) {
	record := progress.Record{Started: t0, Retries: 2, Message: "not yet", Purpose: "create"}
	equal(t, "PROG-16 attempt", record.Attempt(),
		progress.Attempt{Number: 2, Started: t0, Last: "not yet"})
}
