# The only open port of the server: what nodes need and nothing else. Start it in this folder, as an ordinary
# user: nginx -p "$PWD" -c nginx.conf
worker_processes 1;
pid proxy/nginx.pid;
error_log stderr;

events {
    worker_connections 1024;
}

http {
    access_log proxy/access.log;
    client_body_temp_path proxy/body;
    proxy_temp_path proxy/responses;
    fastcgi_temp_path proxy/unused;
    uwsgi_temp_path proxy/unused;
    scgi_temp_path proxy/unused;
    server_tokens off;
    limit_conn_zone $binary_remote_addr zone=address:1m;
    limit_conn_zone $server_name zone=requests:1m;
    limit_conn_zone $server_name zone=pieces:1m;

    upstream superlink {
        server 127.0.0.1:@link@;
        keepalive 16;
    }

    server {
        listen @port@ ssl;
        server_name fleet;
        ssl_certificate certificates/server.crt;
        ssl_certificate_key certificates/server.key;
        ssl_protocols TLSv1.2 TLSv1.3;
        # If the nodes' addresses are known, list them here, so that nobody else can take up connections.
        # allow 192.0.2.7;
        # deny all;
        limit_conn address 64;
        limit_conn requests 512;
        client_header_timeout 20s;
        client_body_timeout 20s;
        # The longest of these is the list of an update's pieces, 70 bytes each.
        client_max_body_size 64k;
        client_body_buffer_size 64k;
        proxy_http_version 1.1;
        proxy_set_header Connection "";
        proxy_ssl_trusted_certificate certificates/ca.crt;
        proxy_ssl_name localhost;
        proxy_ssl_verify on;
        proxy_max_temp_file_size 0;

        location / {
            return 404;
        }

        location ~ ^/v1/fleet/(activate-node|deactivate-node|send-node-heartbeat|get-run|get-fab|pull-messages|pull-object|confirm-message-received|push-messages)$ {
            limit_except POST { deny all; }
            proxy_pass https://superlink/v1/fleet/$1;
        }

        # Pieces of updates, of at most 5 MiB in Flower. The limits bound the SuperLink's memory; a node that
        # is refused tries again.
        location = /v1/fleet/push-object {
            limit_except POST { deny all; }
            limit_conn address 16;
            limit_conn pieces 32;
            client_max_body_size 6m;
            client_body_buffer_size 6m;
            proxy_pass https://superlink/v1/fleet/push-object;
        }
    }

    # The signed app, for the SuperLink on this machine. It sends a POST, which nginx answers with a file only
    # by an error page.
    server {
        listen 127.0.0.1:@apps@;
        server_name apps;
        location = /hub/fetch-fab {
            default_type application/json;
            alias signed/app.json;
            error_page 405 =200 $uri;
        }
        location = /app.fab {
            alias signed/app.fab;
        }
        location / {
            return 404;
        }
    }
}
