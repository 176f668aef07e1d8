package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The pictures match their sources.
func TestPictures_UpToDate(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "pictures")
	sources, err := filepath.Glob(filepath.Join(folder, "*.txt"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("got %d sources and error %v, want at least one source", len(sources), err)
	}
	for _, source := range sources {
		p, err := parse(read(t, source))
		if err != nil {
			t.Fatal(source, err)
		}
		drawn := p.svg()
		if read(t, strings.TrimSuffix(source, ".txt")+".svg") != drawn {
			t.Errorf("the picture of %s is out of date: run `make pictures`", source)
		}
		for decoder := xml.NewDecoder(strings.NewReader(drawn)); ; {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(source, err)
			}
		}
	}
}

func TestParse_ErrorsNameTheLine(t *testing.T) {
	const boxes = "box a 0 0 1 \"A\"\nbox b 1 0 1 \"B\"\nbox far 2 2 1 \"Far\"\n"
	for source, part := range map[string]string{
		"circle a":                  `1: unknown item "circle": use box, store or arrow`,
		"box a 0 0 1":               "1: a box needs",
		"box a 0 x 1 \"A\"":         `"x" must be a number`,
		"box a 0 0 0 \"A\"":         "the width of a box must be positive",
		"box a 0 0 1 \"A":           `missing " at the end`,
		boxes + "box a 3 3 1 \"A\"": `4: duplicate box "a"`,
		boxes + "box c 3 3 1 \"A text that is longer than its box\"": "is too long for its box",
		boxes + "arrow a":             "4: an arrow needs two boxes",
		boxes + "arrow a c":           `no box "c" in an earlier line`,
		boxes + "arrow a far":         "are not neighbours",
		boxes + "\n# fine\narrow a b": "",
		boxes + "arrow b a \"<&>\"":   "",
	} {
		_, err := parse(source)
		if (err == nil) != (part == "") || err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got error %v, want %s", source, err, part)
		}
	}
}

func TestRun_WritesPicturesBesideSources(t *testing.T) {
	folder := t.TempDir()
	if err := run(folder); err == nil {
		t.Error("got no error for a directory without sources")
	}
	if err := os.WriteFile(filepath.Join(folder, "x.txt"), []byte("box a 0 0 1 \"<A>\"\nstore b 0 1 2 \"B\"\narrow a b \"x\"\narrow b a"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := run(folder); err != nil {
		t.Fatal(err)
	}
	if drawn := read(t, filepath.Join(folder, "x.svg")); !strings.Contains(drawn, "&lt;A&gt;") || strings.Count(drawn, "<line ") != 2 {
		t.Errorf("got picture %s, want an escaped title and two lines", drawn)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
