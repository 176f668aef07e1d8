package watchcheck

import "time"

// silentIntervals is for how many intervals a suspicion has to last before the watch counts as silent: until the probe that has raised it was
// repeated.
const silentIntervals = 2

// An observation is the result of one probe.
type probeResult struct {
	probe probeKind
	// reason and fault are set if the API server has refused the probe.
	reason Reason
	err    error
	// unclear: the probe has failed for another reason, and shows nothing.
	unclear bool
	// delivered: the stream of the probe has delivered something.
	delivered bool
}

// A state is what is known about one watch.
type watchState struct {
	reason Reason // forbidden or not served
	err    error
	since  time.Time // of the reason

	// pending: the API server has changes after the version that the informer had then.
	changesPending bool
	pendingVersion string
	// mute: a stream has delivered nothing though it had to; delivers: one has delivered before, so that the API server can do it.
	streamSilent, streamDelivered bool

	// suspect is since when one of these was so while the informer was at version; confirmed is when a probe has last shown it.
	suspectSince, confirmedAt time.Time
	version                   string

	logged Reason
}

// update records a probe that was made while the informer was at a version.
func (s *watchState) update(now time.Time, version string, seen probeResult) {
	if seen.unclear {
		return
	}
	if seen.reason != s.reason {
		s.since = now
	}
	s.reason, s.err = seen.reason, seen.err
	switch {
	case seen.reason != "":
		s.changesPending, s.streamSilent = false, false
	case seen.probe == changesProbe:
		s.changesPending, s.pendingVersion = seen.delivered, version
	case seen.probe == streamProbe:
		s.streamSilent = s.streamDelivered && !seen.delivered
		s.streamDelivered = s.streamDelivered || seen.delivered
	}
	switch suspicious := s.streamSilent || s.changesPending && s.pendingVersion == version; {
	case !suspicious:
		s.suspectSince = time.Time{}
	case s.suspectSince.IsZero() || s.version != version:
		s.suspectSince = now
	}
	s.version, s.confirmedAt = version, now
}

// judge returns the reason why the watch delivers nothing, and since when; an empty reason if it is healthy.
func (s *watchState) diagnose(silentAfter time.Duration) (Reason, time.Time) {
	if s.reason != "" {
		return s.reason, s.since
	}
	if !s.suspectSince.IsZero() && s.confirmedAt.Sub(s.suspectSince) >= silentAfter {
		return Silent, s.suspectSince
	}
	return "", time.Time{}
}
