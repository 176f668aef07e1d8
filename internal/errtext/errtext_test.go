package errtext_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-runtime/kopf-runtime/internal/errtext"
)

func TestSome(t *testing.T) {
	list := strings.Split(strings.Repeat("a,", 99)+"z", ",")
	if got := errtext.Some(list); len(got) != 51 || got[50] != "and 50 more" || list[50] != "a" {
		t.Errorf("got %q", got)
	}
	if got := errtext.Some(list[:50]); len(got) != 50 || got[49] != "a" {
		t.Errorf("got %q, want the whole list", got)
	}
}

func TestLimit(t *testing.T) {
	cause := errors.New("cause")
	short := fmt.Errorf("short: %w", cause)
	if got := errtext.Limit(short); got != short { //nolint:errorlint // it must be the same error
		t.Errorf("Limit changes a short error to %v", got)
	}
	if errtext.Limit(nil) != nil {
		t.Error("Limit(nil) is not nil")
	}
	long := errtext.Limit(fmt.Errorf("first %s: %w, last", strings.Repeat("ö", 2<<20), cause))
	text := long.Error()
	if len(text) > errtext.MaxBytes || !utf8.ValidString(text) || !strings.HasPrefix(text, "first ") || !strings.HasSuffix(text, ": cause, last") {
		t.Errorf("the text has %d bytes: %.40s", len(text), text)
	}
	if !errors.Is(long, cause) {
		t.Error("the result does not wrap the error")
	}
	if verbose := fmt.Sprintf("%+v", long); len(verbose) > errtext.MaxBytes {
		t.Errorf("the verbose text has %d bytes", len(verbose))
	}
}
