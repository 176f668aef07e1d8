package guard_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kopf-runtime/kopf-runtime/internal/guard"
)

func TestShortenList(t *testing.T) {
	list := strings.Split(strings.Repeat("a,", 99)+"z", ",")
	if got := guard.ShortenList(list); len(got) != 51 || got[50] != "and 50 more" || list[50] != "a" {
		t.Errorf("got %q", got)
	}
	if got := guard.ShortenList(list[:50]); len(got) != 50 || got[49] != "a" {
		t.Errorf("got %q, want the whole list", got)
	}
}

func TestShortenError(t *testing.T) {
	cause := errors.New("cause")
	short := fmt.Errorf("short: %w", cause)
	if got := guard.ShortenError(short); got != short { //nolint:errorlint // it must be the same error
		t.Errorf("ShortenError changes a short error to %v", got)
	}
	if guard.ShortenError(nil) != nil {
		t.Error("ShortenError(nil) is not nil")
	}
	long := guard.ShortenError(fmt.Errorf("first %s: %w, last", strings.Repeat("ö", 2<<20), cause))
	text := long.Error()
	if len(text) > guard.MaxTextBytes || !utf8.ValidString(text) || !strings.HasPrefix(text, "first ") || !strings.HasSuffix(text, ": cause, last") {
		t.Errorf("the text has %d bytes: %.40s", len(text), text)
	}
	if !errors.Is(long, cause) {
		t.Error("the result does not wrap the error")
	}
	if verbose := fmt.Sprintf("%+v", long); len(verbose) > guard.MaxTextBytes {
		t.Errorf("the verbose text has %d bytes", len(verbose))
	}
}
