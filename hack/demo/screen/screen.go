package screen

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// A Screen is where a command tells its story. On a terminal, headings stand out.
type Screen struct {
	out  io.Writer
	rich bool
}

// New returns the screen of a terminal, or a plain one if the file is none.
func New(file *os.File) *Screen {
	info, err := file.Stat()
	terminal := err == nil && info.Mode()&os.ModeCharDevice != 0
	return &Screen{out: file, rich: terminal && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""}
}

// Plain is a screen without colours.
func Plain(out io.Writer) *Screen { return &Screen{out: out} }

func (s *Screen) printf(format string, args ...any) { _, _ = fmt.Fprintf(s.out, format, args...) }

// Say shows a line, or some.
func (s *Screen) Say(text string) { s.printf("%s\n", text) }

// Bold shows a line that stands out.
func (s *Screen) Bold(text string) {
	if s.rich {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	s.Say(text)
}

// Heading begins a chapter.
func (s *Screen) Heading(text string) {
	s.Say("")
	s.Bold(fmt.Sprintf("=== %s %s", text, strings.Repeat("=", max(0, 90-len(text)))))
	s.Say("")
}

// Part shows some lines under a title, and a remark instead if there are none.
func (s *Screen) Part(title string, lines []string, none string) {
	s.Say("")
	s.Bold(title)
	if len(lines) == 0 {
		lines = []string{none}
	}
	for _, line := range lines {
		s.Say("  " + line)
	}
}

// During says what is being done, and how long that may take, and did.
func (s *Screen) During(ctx context.Context, limit time.Duration, what, hint string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	s.printf("%s (%s) ...", what, hint)
	began := time.Now()
	done := make(chan error, 1)
	go func() { done <- do(ctx) }()
	sign := time.NewTicker(5 * time.Second)
	defer sign.Stop()
	for {
		select {
		case <-sign.C:
			s.printf(" %ds ...", int(time.Since(began).Seconds()))
		case err := <-done:
			took := time.Since(began).Round(100 * time.Millisecond)
			if err != nil {
				s.printf(" no, after %s\n", took)
				return fmt.Errorf("%s: %w", strings.ToLower(what[:1])+what[1:], err)
			}
			s.printf(" done in %s\n", took)
			return nil
		}
	}
}
