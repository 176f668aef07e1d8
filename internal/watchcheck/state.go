package watchcheck

import "time"

// silentIntervals is for how many intervals a suspicion has to last before the watch counts as silent: until the probe that has raised it was
// repeated.
const silentIntervals = 2

// An observation is the result of one probe.
type observation struct {
	probe probeKind
	// reason and fault are set if the API server has refused the probe.
	reason Reason
	fault  error
	// unclear: the probe has failed for another reason, and shows nothing.
	unclear bool
	// delivered: the stream of the probe has delivered something.
	delivered bool
}

// A state is what is known about one watch.
type state struct {
	reason Reason // forbidden or not served
	fault  error
	since  time.Time // of the reason

	// pending: the API server has changes after the version that the informer had then.
	pending   bool
	pendingAt string
	// mute: a stream has delivered nothing though it had to; delivers: one has delivered before, so that the API server can do it.
	mute, delivers bool

	// suspect is since when one of these was so while the informer was at version; confirmed is when a probe has last shown it.
	suspect, confirmed time.Time
	version            string

	logged Reason
}

// update records a probe that was made while the informer was at a version.
func (s *state) update(now time.Time, version string, seen observation) {
	if seen.unclear {
		return
	}
	if seen.reason != s.reason {
		s.since = now
	}
	s.reason, s.fault = seen.reason, seen.fault
	switch {
	case seen.reason != "":
		s.pending, s.mute = false, false
	case seen.probe == changesProbe:
		s.pending, s.pendingAt = seen.delivered, version
	case seen.probe == streamProbe:
		s.mute = s.delivers && !seen.delivered
		s.delivers = s.delivers || seen.delivered
	}
	switch suspicious := s.mute || s.pending && s.pendingAt == version; {
	case !suspicious:
		s.suspect = time.Time{}
	case s.suspect.IsZero() || s.version != version:
		s.suspect = now
	}
	s.version, s.confirmed = version, now
}

// judge returns the reason why the watch delivers nothing, and since when; an empty reason if it is healthy.
func (s *state) judge(silentAfter time.Duration) (Reason, time.Time) {
	if s.reason != "" {
		return s.reason, s.since
	}
	if !s.suspect.IsZero() && s.confirmed.Sub(s.suspect) >= silentAfter {
		return Silent, s.suspect
	}
	return "", time.Time{}
}
