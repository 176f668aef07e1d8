package logs

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"time"
)

// maxTime is the maximum length of a timestamp, including the blank after the timestamp.
const maxTime = len(time.RFC3339Nano) + 1

// A lineReader reads the lines of a stream in bounded memory.
type lineReader struct{ buffer *bufio.Reader }

func newLineReader(r io.Reader) lineReader {
	return lineReader{bufio.NewReaderSize(r, maxTime+MaxText+1)}
}

// next returns the next line with its timestamp. The line is valid until the next call. At the end of the stream, next returns an error, with the
// last line if it has no line break, or with an empty line.
func (r lineReader) next() (line []byte, truncated bool, err error) {
	line, err = r.buffer.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return bytes.TrimSuffix(line, []byte("\n")), false, err
	}
	line = bytes.Clone(line)
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.buffer.ReadSlice('\n')
	}
	return line, true, err
}

// parse splits a line into its timestamp and its text. It returns false for a message of the kubelet, which has no timestamp.
func parse(line []byte, truncated bool) (parsed Line, ok bool) {
	stamp, text, _ := bytes.Cut(line, []byte(" "))
	t, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return Line{}, false
	}
	if len(text) > MaxText {
		text, truncated = text[:MaxText], true
	}
	return Line{Time: t.UTC(), Text: string(text), Truncated: truncated}, true
}
