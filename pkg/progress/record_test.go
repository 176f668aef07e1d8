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
			name: "PROG-02 nulls are dropped, counts and ends are not",
			want: `{"retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 PROG-12 a fresh one",
			record: progress.Record{Started: t0, Purpose: "create"},
			want:   `{"started":"2020-12-31T23:59:59.123456+00:00","purpose":"create","retries":0,"success":false,"failure":false}`,
		},
		{
			name: "PROG-02 a finished one, as in the cheat sheet",
			record: progress.Record{
				Started: t0, Stopped: t0.Add(76544 * time.Microsecond), Purpose: "create", Retries: 1, Success: true,
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.200000+00:00",` +
				`"purpose":"create","retries":1,"success":true,"failure":false}`,
		},
		{
			name: "PROG-02 a delayed one, as in the cheat sheet",
			record: progress.Record{
				Started: t0, Delayed: t0.Add(time.Minute), Purpose: "create", Retries: 3, Message: "Not ready yet.",
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","delayed":"2021-01-01T00:00:59.123456+00:00",` +
				`"purpose":"create","retries":3,"success":false,"failure":false,"message":"Not ready yet."}`,
		},
		{
			name: "PROG-02 all fields, in their order",
			record: progress.Record{
				Started: t0, Stopped: t0, Delayed: t0, Purpose: "resume", Retries: 2, Failure: true, Message: "m", Subrefs: []string{"p/a"},
			},
			want: `{"started":"2020-12-31T23:59:59.123456+00:00","stopped":"2020-12-31T23:59:59.123456+00:00",` +
				`"delayed":"2020-12-31T23:59:59.123456+00:00","purpose":"resume","retries":2,"success":false,"failure":true,"message":"m","subrefs":["p/a"]}`,
		},
		{
			name:   "DLY-14 when the attempt ended that it is delayed from, behind the fields of kopf",
			record: progress.Record{Delayed: t0, Attempted: t0, Retries: 1, Message: "m"},
			want: `{"delayed":"2020-12-31T23:59:59.123456+00:00","retries":1,"success":false,"failure":false,"message":"m",` +
				`"attempted":"2020-12-31T23:59:59.123456+00:00"}`,
		},
		{
			name:   "SUB-12 sub-handlers sorted, each once",
			record: progress.Record{Subrefs: []string{"p/b", "p/a", "p/b"}},
			want:   `{"retries":0,"success":false,"failure":false,"subrefs":["p/a","p/b"]}`,
		},
		{
			name:   "PROG-03 six digits also for a whole second",
			record: progress.Record{Started: time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC)},
			want:   `{"started":"2021-01-01T00:00:00.000000+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 six digits also for nanoseconds",
			record: progress.Record{Started: time.Date(2021, 1, 1, 0, 0, 0, 999, time.UTC)},
			want:   `{"started":"2021-01-01T00:00:00.000000+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-03 in UTC whatever the zone",
			record: progress.Record{Started: t0.In(time.FixedZone("", 5*3600+1800))},
			want:   `{"started":"2020-12-31T23:59:59.123456+00:00","retries":0,"success":false,"failure":false}`,
		},
		{
			name:   "PROG-02 in ASCII, the characters of HTML as they are",
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
			name: "PROG-30 what kopf writes",
			text: `{"started":"2020-12-31T23:59:59.123456+00:00","delayed":"2021-01-01T00:00:59.123456+00:00",` +
				`"purpose":"create","retries":3,"success":false,"failure":false,"message":"Not ready yet.","subrefs":["p/a"]}`,
			want: progress.Record{
				Started: t0, Delayed: t0.Add(time.Minute), Purpose: "create", Retries: 3, Message: "Not ready yet.", Subrefs: []string{"p/a"},
			},
		},
		{
			name: "PROG-02 PROG-07 with nulls",
			text: `{"started":null,"stopped":null,"delayed":null,"purpose":null,"retries":null,"success":null,"failure":null,"message":null,"subrefs":null}`,
		},
		{
			name: "DLY-14 what is ours is not what kopf needs: a broken time",
			text: `{"delayed":"2020-12-31T23:59:59.123456+00:00","attempted":"yesterday"}`, want: progress.Record{Delayed: t0},
		},
		{
			name: "DLY-14 a time",
			text: `{"delayed":"2020-12-31T23:59:59.123456+00:00","attempted":"2020-12-31T23:59:59.123456Z"}`, want: progress.Record{Delayed: t0, Attempted: t0},
		},
		{name: "DLY-14 a time without a delay, which kopf has removed", text: `{"retries":1,"attempted":"2020-12-31T23:59:59.123456Z"}`, want: progress.Record{Retries: 1}},
		{name: "PROG-14 nothing in it", text: `{}`},
		{name: "PROG-14 no retries", text: `{"success":true}`, want: progress.Record{Success: true}},
		{name: "PROG-25 no purpose", text: `{"retries":1,"failure":true}`, want: progress.Record{Retries: 1, Failure: true}},
		{name: "PROG-18 a parent that waits", text: `{"retries":1,"message":"None"}`, want: progress.Record{Retries: 1, Message: "None"}},
		{name: "MIG-07 unknown keys", text: `{"retries":1,"priority":{"a":[1]},"reason":"x"}`, want: progress.Record{Retries: 1}},
		{name: "MIG-07 unknown keys that differ in case", text: `{"retries":1,"Success":true,"FAILURE":"yes"}`, want: progress.Record{Retries: 1}},
		{name: "MIG-04 a count as a float", text: `{"retries":2.0}`, want: progress.Record{Retries: 2}},
		{name: "MIG-04 a great count", text: `{"retries":9007199254740992}`, want: progress.Record{Retries: 9007199254740992}},
		{name: "PROG-02 with spaces and newlines", text: " {\"retries\" : 1}\n", want: progress.Record{Retries: 1}},
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
		{"B-30 no JSON", `{"retries":`},
		{"B-30 no object", `[1]`},
		{"B-30 something behind it", `{"retries":1} {}`},
		{"B-30 a string", `"retries"`},
		{"B-30 no time", `{"started":"yesterday"}`},
		{"B-30 an empty time", `{"delayed":""}`},
		{"B-30 a number for a time", `{"stopped":1609459199}`},
		{"B-30 a text for a count", `{"retries":"3"}`},
		{"B-30 a count beyond all counting", `{"retries":1e300}`},
		{"B-30 a count that JSON cannot count exactly", `{"retries":9007199254740994}`},
		{"B-30 a count below zero", `{"retries":-1}`},
		{"B-30 half a count", `{"retries":1.5}`},
		{"B-30 a text for an end", `{"success":"yes"}`},
		{"B-30 a text for a list", `{"subrefs":"a"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := progress.Record{Retries: 7}
			if err := json.Unmarshal([]byte(test.text), &got); err == nil {
				t.Errorf("read as %+v, want an error", got)
			}
			equal(t, "what was there before", got, progress.Record{Retries: 7})
		})
	}
}

func TestRecord_TimeFormats(t *testing.T) {
	second := t0.Truncate(time.Second)
	for _, test := range []struct {
		name, text string
		want       time.Time
	}{
		{"PROG-03 as written", "2020-12-31T23:59:59.123456+00:00", t0},
		{"PROG-04 Z", "2020-12-31T23:59:59.123456Z", t0},
		{"PROG-04 no fraction", "2020-12-31T23:59:59+00:00", second},
		{"PROG-04 a short fraction", "2020-12-31T23:59:59.5Z", second.Add(time.Second / 2)},
		{"PROG-04 a comma", "2020-12-31T23:59:59,5Z", second.Add(time.Second / 2)},
		{"PROG-04 an offset", "2021-01-01T01:29:59.123456+01:30", t0},
		{"PROG-04 a negative offset", "2020-12-31T18:59:59.123456-05:00", t0},
		{"PROG-04 an offset without a colon", "2021-01-01T01:29:59.123456+0130", t0},
		{"PROG-04 an offset of hours", "2021-01-01T00:59:59.123456+01", t0},
		{"PROG-04 a space between", "2020-12-31 23:59:59.123456+00:00", t0},
		{"PROG-04 the basic form", "20201231T235959.123456Z", t0},
		{"PROG-04 no seconds", "2020-12-31T23:59+00:00", second.Truncate(time.Minute)},
		{"PROG-04 B-30 no offset is UTC", "2020-12-31T23:59:59.123456", t0},
		{"PROG-04 B-30 no offset, a space between", "2020-12-31 23:59:59.123456", t0},
		{"PROG-04 B-30 no offset in the basic form", "20201231T235959", second},
		{"PROG-04 the greatest time of Python", "9999-12-31T23:59:59.999999+00:00", time.Date(9999, 12, 31, 23, 59, 59, 999999000, time.UTC)},
		{"PROG-04 nearly the least time of Python", "0001-01-01T00:00:01+00:00", time.Date(1, 1, 1, 0, 0, 1, 0, time.UTC)},
		{"PROG-04 a day", "2020-12-31", time.Date(2020, 12, 31, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got progress.Record
			if err := json.Unmarshal([]byte(`{"delayed":"`+test.text+`"}`), &got); err != nil {
				t.Fatal(err)
			}
			equal(t, "time", got.Delayed, test.want)
			if got.Delayed.Location() != time.UTC {
				t.Errorf("the zone is %v, want UTC", got.Delayed.Location())
			}
		})
	}
}

// A decoded record must remain decodable after it is encoded.
func TestRecord_ExtremeTimes(t *testing.T) {
	for _, test := range []struct{ name, text string }{
		{"PROG-03 the last second", "9999-12-31T23:59:59Z"},
		{"PROG-03 the last second elsewhere", "9999-12-31T23:59:59-01:00"},
		{"PROG-03 the first second elsewhere", "0000-01-01T00:00:00+01:00"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var record, again progress.Record
			if err := json.Unmarshal([]byte(`{"started":"`+test.text+`"}`), &record); err != nil {
				return // not decoded, which is valid, too
			}
			text, err := record.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(text, &again); err != nil {
				t.Errorf("read, but written as %s: %v", text, err)
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
		{"PROG-15 a fresh one is awake", progress.Record{Started: t0}, true, false},
		{"PROG-15 one without anything is awake", progress.Record{}, true, false},
		{"PROG-15 delayed until later: asleep", progress.Record{Delayed: t0.Add(time.Microsecond)}, false, false},
		{"PROG-15 delayed until now: awake", progress.Record{Delayed: t0}, true, false},
		{"PROG-15 delayed until earlier: awake", progress.Record{Delayed: t0.Add(-time.Hour)}, true, false},
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
	equal(t, "PROG-16 the attempt is the number of those before", record.Attempt(),
		progress.Attempt{Number: 2, Started: t0, Last: "not yet"})
}
