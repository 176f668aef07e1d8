package python

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// Ways to make the operator in Go incompatible, as if the library had a mistake.
const (
	damageKey       = "key"       // it has another name for a key of records, when it writes and when it reads
	damageTime      = "time"      // it writes times in another format
	damageFinalizer = "finalizer" // it removes the finalizer with the first record of a deletion, when the handlers have not yet finished
)

// A damagingTransport changes the requests and responses of a damaged operator.
type damagingTransport struct {
	http.RoundTripper
	damage string
}

func (d damagingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !strings.Contains(r.URL.Path, "/"+plural(thingKind)) {
		return d.RoundTripper.RoundTrip(r)
	}
	if r.Method == http.MethodPatch {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		if text, err = damage(text, d.damage); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(text)), nil }
	}
	response, err := d.RoundTripper.RoundTrip(r)
	if err == nil && d.damage == damageKey {
		response.Body = damagedBody{&lines{source: bufio.NewReader(response.Body)}, response.Body}
	}
	return response, err
}

var (
	recordTime    = regexp.MustCompile(`(delayed\\":\\")(\d{4}-\d\d-\d\d)T([0-9:.]+)[^"\\]*`)
	key, otherKey = []byte(`\"retries\":`), []byte(`\"Retries\":`) // of the same length, because a response has a length
)

// damage changes a patch.
func damage(patch []byte, kind string) ([]byte, error) {
	switch kind {
	case damageKey:
		return bytes.ReplaceAll(patch, key, otherKey), nil
	case damageTime:
		return recordTime.ReplaceAll(patch, []byte(`${1}${2} at ${3}`)), nil
	case damageFinalizer:
		if !bytes.Contains(patch, []byte(`purpose\":\"delete`)) {
			return patch, nil
		}
		var merge map[string]any
		if err := json.Unmarshal(patch, &merge); err != nil {
			return nil, err
		}
		if metadata, ok := merge["metadata"].(map[string]any); ok {
			metadata["finalizers"] = []string{}
		}
		return json.Marshal(merge)
	default:
		return nil, fmt.Errorf("unknown damage %q", kind)
	}
}

type damagedBody struct {
	io.Reader
	io.Closer
}

// lines exchanges the keys in each line. An event of a watch is a line.
type lines struct {
	source *bufio.Reader
	rest   []byte
}

func (l *lines) Read(p []byte) (int, error) {
	if len(l.rest) == 0 {
		line, err := l.source.ReadBytes('\n')
		if len(line) == 0 {
			return 0, err
		}
		line = bytes.ReplaceAll(line, key, []byte(`\"unknown\":`))
		l.rest = bytes.ReplaceAll(line, otherKey, key)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// TestTakeOver_FindsIncompatibilities runs a part of TestTakeOver with damaged operators in Go.
func TestTakeOver_FindsIncompatibilities(t *testing.T) {
	s := needKopf(t)
	kopf := versions[len(versions)-1]
	for _, planted := range []struct {
		damage   string
		from, to string
		problems map[string]string // at least these, by the object
	}{
		{"", kopf, ours, nil},
		{"", ours, kopf, nil},
		{damageKey, kopf, ours, map[string]string{
			"create-waiting":   "the call 0 has the retry 0 instead of 1",
			"update-succeeded": "the call 0 has the retry 0 instead of 1",
			"delete-waiting":   "the call 0 has the retry 0 instead of 1",
		}},
		{damageTime, ours, kopf, map[string]string{
			"create-waiting":   "it was called 0 times instead of 2",
			"update-succeeded": "it was called 0 times instead of 1",
			"delete-waiting":   "it was called 0 times instead of 2",
		}},
		{damageFinalizer, kopf, ours, map[string]string{
			"delete-waiting": "it was called 1 times instead of 2",
		}},
	} {
		t.Run(strings.TrimSpace(planted.damage+" from "+planted.from), func(t *testing.T) {
			t.Parallel()
			o := takeOver{
				suite: s, place: places[0], from: planted.from, to: planted.to, damage: planted.damage,
				scenarios: scenarios(func(cause string, s state) bool {
					return slices.Contains([]string{"create", "update", "delete"}, cause) && slices.Contains([]string{"waiting", "succeeded"}, s.name)
				}),
			}
			if planted.damage != "" {
				o.limit = takeOverDelay*time.Second + 10*time.Second
			}
			found := o.run(t)
			if planted.problems == nil && len(found) > 0 {
				t.Errorf("problems without damage: %q", found)
			}
			for object, problem := range planted.problems {
				if !slices.ContainsFunc(found[object], func(p string) bool { return strings.Contains(p, problem) }) {
					t.Errorf("the problem %q of %s was not found, but %q", problem, object, found)
				}
			}
		})
	}
}
