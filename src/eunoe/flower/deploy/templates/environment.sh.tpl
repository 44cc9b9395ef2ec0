# For the commands of the server, in its folder: . ./environment.sh
# The server's database, logs and run folder are for this user only.
umask 077
export FLWR_TELEMETRY_ENABLED=0 FLWR_DISABLE_UPDATE_CHECK=1 FLWR_HOME="$PWD/.flwr"
# The SuperLink fetches apps from its own proxy, never from Flower's hub.
export FLWR_SUPERGRID_API_URL=http://127.0.0.1:@apps@ NO_PROXY=127.0.0.1 no_proxy=127.0.0.1
mkdir -p "$FLWR_HOME"
cat > "$FLWR_HOME/config.toml" <<END
[superlink]
default = "server"

[superlink.server]
address = "127.0.0.1:@link@"
root-certificates = "$PWD/certificates/ca.crt"
END
